"""Sessions in a folder of files, shared by any number of processes of one machine."""
