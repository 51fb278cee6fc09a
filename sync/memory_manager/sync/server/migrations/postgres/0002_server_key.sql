-- whose database this is: the public key of the first server that opened it
CREATE TABLE server_key(
  one integer PRIMARY KEY CHECK(one = 1),
  public bytea NOT NULL CHECK(octet_length(public) = 32)
);
