"""Episodes with a language model, and numbers about them."""
