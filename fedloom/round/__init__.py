"""Round: what every engine does at the end of a round."""
