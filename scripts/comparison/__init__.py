"""What `graphwrap compare` is made of: settings, runs, training, results, report."""
