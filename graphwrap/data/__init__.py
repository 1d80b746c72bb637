"""From what users give to arrays: keys, tables of ids, checks, order, files."""
