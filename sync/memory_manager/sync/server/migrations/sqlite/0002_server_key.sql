-- whose database this is: the public key of the first server that opened it
CREATE TABLE server_key(
  one INTEGER NOT NULL PRIMARY KEY CHECK(one = 1),
  public BLOB NOT NULL CHECK(length(public) = 32)
) STRICT;
