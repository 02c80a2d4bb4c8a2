"""Local work: what a client does with the model it was sent."""

from fedloom.local.reply import Reply
from fedloom.local.sgd import Sgd, Work, sgd

__all__ = ["Reply", "Sgd", "Work", "sgd"]
