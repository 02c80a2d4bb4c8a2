"""Federation: the network between real participants."""
