"""Version: of fedloom."""

VERSION = "0.2.0"
