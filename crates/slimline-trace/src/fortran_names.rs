//! What Fortran's compilers make of names.

/// The main program, as gfortran links it: whatever the source calls it, no linker knows.
const MAIN: &str = "MAIN__";

/// What a procedure or variable of a module is called that flang (`_QMmeshPstep`) or gfortran (`__mesh_MOD_step`) has linked:
/// `mesh::step`. None of any other name.
pub fn written(linked: &str) -> Option<String> {
    if linked == "_QQmain" {
        return Some(MAIN.to_owned());
    }
    if let Some((module, name)) = linked.strip_prefix("__").and_then(|rest| rest.split_once("_MOD_")) {
        return (!module.is_empty() && !name.is_empty()).then(|| format!("{module}::{name}"));
    }
    let mut rest = linked.strip_prefix("_Q")?;
    let mut names = Vec::new();
    // Fortran does not tell letters by case: names are in small ones, what they are names of is in others.
    while !rest.is_empty() {
        let named = rest.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let sorts = &rest[..rest.len() - named.len()];
        let end = named.find(|c: char| c.is_ascii_uppercase()).unwrap_or(named.len());
        let is_known = ["M", "S", "F", "P", "E", "EC", "T", "C", "N", "B"].contains(&sorts);
        if !is_known || end == 0 || !named[..end].bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return None;
        }
        // Blocks have numbers.
        if sorts != "B" {
            names.push(&named[..end]);
        }
        rest = &named[end..];
    }
    (!names.is_empty()).then(|| names.join("::"))
}

/// What an external procedure or a common block is called that gfortran has linked as `step_`, of what is known to be Fortran's; any other
/// name unchanged.
pub fn external(linked: &str) -> &str {
    match linked.strip_suffix('_') {
        Some(name) if !name.is_empty() && !linked.starts_with('_') && linked != MAIN => name,
        _ => linked,
    }
}

/// Whether a type is spelled as Fortran's are here, of debug information: `real(kind=8)`, `character(len=6)`, `type(cell) *`.
pub fn is_type(spelled: &str) -> bool {
    let bare = spelled.trim_start_matches("const ").trim_start_matches("volatile ");
    ["real(kind=", "integer(kind=", "logical(kind=", "complex(kind=", "character(kind=", "character(len=", "type("]
        .iter()
        .any(|begin| bare.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_fortrans_by_their_spelling() {
        let types = ["real(kind=8), dimension(4)", "type(cell) *", "character(len=6)", "const integer(kind=4)"];
        assert!(types.into_iter().all(is_type));
        assert!(!["real", "double", "typed", "int (*)(int)"].into_iter().any(is_type));
    }

    #[test]
    fn external_names_lose_what_is_linked() {
        for (linked, expected) in [
            ("step_", "step"),
            ("step", "step"),
            ("time_step_", "time_step"),
            ("MAIN__", "MAIN__"),
            ("_", "_"),
            ("__BLNK__", "__BLNK__"),
            ("__mesh_MOD_step", "__mesh_MOD_step"),
            ("_QMmeshEmass", "_QMmeshEmass"),
        ] {
            assert_eq!(external(linked), expected);
        }
    }

    #[test]
    fn names_are_as_in_the_source() {
        for (linked, expected) in [
            ("_QMparticlesPstep", Some("particles::step")),
            ("_QMparticlesEmass", Some("particles::mass")),
            ("_QMmeshFsweepPinner", Some("mesh::sweep::inner")),
            ("_QFsweepECn_2", Some("sweep::n_2")),
            ("_QFsweepB3Ei", Some("sweep::i")),
            ("_QPother", Some("other")),
            ("_QQmain", Some("MAIN__")),
            ("__particles_MOD_step", Some("particles::step")),
            ("_QQclX48656C6C6F", None),
            ("_Q", None),
            ("_QMm$", None),
            ("__MOD_", None),
            ("_ZN1a1bEv", None),
            ("other_", None),
        ] {
            assert_eq!(written(linked).as_deref(), expected, "{linked}");
        }
    }
}
