/// What is in a context now.
///
/// `bytes + wasted_bytes` are those of `buckets`; what of `held_bytes` is neither that nor of large objects is in buckets that
/// no arena has, and in tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[repr(C)]
pub struct Statistics {
    /// Objects in buckets.
    pub objects: usize,
    /// Their bytes, each object's rounded up to a multiple of [`UNIT_BYTES`](crate::UNIT_BYTES).
    pub bytes: usize,
    /// Buckets that arenas have.
    pub buckets: usize,
    /// Arenas that have objects.
    pub arenas: usize,
    /// Bytes of those buckets that are in no object.
    pub wasted_bytes: usize,
    /// Objects of the allocator below, which are larger than a bucket.
    pub large_objects: usize,
    /// Their bytes.
    pub large_bytes: usize,
    /// Bytes that were taken from the allocator below and not given back.
    pub held_bytes: usize,
}
