"""What an update is made of: losses, minibatches, optimizer, critic."""
