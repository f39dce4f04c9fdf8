//! From addresses to code (function, line, loop) and data (object, type, field).
