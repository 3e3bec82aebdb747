"""One page per framework: translation of kern_tools' tools and replies, only."""
