//! x86-64 emulation for sampling: decode, undo backwards, emulate forwards.
