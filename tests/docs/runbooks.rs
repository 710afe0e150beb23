//! Everything that the program calls by a name has its line in operations.md.
