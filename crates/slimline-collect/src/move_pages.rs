//! Asking the kernel on which NUMA node pages of another process are: move_pages(2), which moves nothing where it is told of no
//! node to move to.
#![allow(unsafe_code)] // a system call that no crate has as a function

use std::io;
use std::ptr;

/// Of each page, by its address, the number of its node, or a negative error number (`-ENOENT`: no memory is behind it).
///
/// # Errors
/// The process is gone, or we may not ask.
pub(crate) fn nodes_of_pages(pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    let mut nodes = vec![-libc::ENOENT; addresses.len()];
    let no_nodes = ptr::null::<libc::c_int>();
    // SAFETY: the kernel reads `addresses.len()` addresses, which it never follows, and writes as many numbers: both vectors
    // have that many. Without nodes to move to it changes nothing of any process.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            libc::c_long::from(pid),
            addresses.len() as libc::c_ulong,
            addresses.as_ptr(),
            no_nodes,
            nodes.as_mut_ptr(),
            0_i64,
        )
    };
    // Above 0: so many pages were not moved, which none was to be.
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(nodes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this process, by the kernel that there is.
    #[test]
    fn the_kernel_tells_of_pages_that_are_there() {
        let there = Box::new([7_u8; 4096]);
        let page = |address: *const u8| address as u64 & !4095;
        let found = nodes_of_pages(std::process::id(), &[page(there.as_ptr()), 4096]);
        assert_eq!(there[0], 7);
        match found {
            Ok(nodes) => {
                let online = crate::topology::topology().nodes;
                let is_online = |node: i32| online.is_empty() || online.iter().any(|known| known.number as i32 == node);
                assert!(is_online(nodes[0]), "{nodes:?} of {online:?}");
                // The second page of all is nobody's.
                assert!([-libc::EFAULT, -libc::ENOENT].contains(&nodes[1]), "{nodes:?}");
            }
            // A kernel without NUMA, or a container that is not let.
            Err(error) => {
                let refused = [Some(libc::ENOSYS), Some(libc::EPERM)];
                assert!(refused.contains(&error.raw_os_error()), "{error}");
            }
        }
        // No process has this number.
        assert!(nodes_of_pages(i32::MAX as u32, &[4096]).is_err());
    }
}
