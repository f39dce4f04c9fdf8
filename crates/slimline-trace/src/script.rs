//! What the kernel runs for a script.

/// Bytes of a script's beginning that the kernel reads.
pub const LINE_BYTES: usize = 256;

/// The interpreter that a file names which begins so, and what stands behind that, which is one argument; none where it is no script.
pub fn interpreter(beginning: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let line = beginning.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (path, argument) = (&line[..end], line[end..].trim_ascii());
    (!path.is_empty()).then_some((path, Some(argument).filter(|argument| !argument.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter() {
        let told = |line: &'static str| interpreter(line.as_bytes());
        assert_eq!(told("#!/bin/sh\necho"), Some((&b"/bin/sh"[..], None)));
        assert_eq!(told("#! /usr/bin/env  python3 -u \r\n"), Some((&b"/usr/bin/env"[..], Some(&b"python3 -u"[..]))));
        for nothing in ["", "#!", "#!\n/bin/sh", "\x7fELF", " #!/bin/sh"] {
            assert_eq!(told(nothing), None, "{nothing:?}");
        }
    }
}
