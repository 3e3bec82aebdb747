"""One room per framework: translation of kern_tools' tools and replies, only."""
