"""Where programs run, one file each. The file's name is the backend's name; the class is always Backend."""
