"""Language models: batches, forward passes, weights, and models that need no download."""
