"""sqlcipher3 is written in C and ships no types; it has the interface of the standard sqlite3."""

from sqlcipher3.dbapi2 import *
