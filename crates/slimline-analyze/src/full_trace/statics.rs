//! Static variables among what was accessed: the groups that no instruction allocates.

use std::collections::{BTreeMap, BTreeSet};

use slimline_trace::stream::decode::Program;
use slimline_trace::stream::sites::{Module, Site, SiteKind};

use super::Accesses;
use super::elements::Elements;
use super::filter::Filter;
use super::findings::{line, place};
use super::heap::blocks::Blocks;
use super::heap::live_blocks::Group;
use super::spots::Spot;

/// The static variables of a run.
#[derive(Debug)]
pub(super) struct Statics<'p> {
    of: BTreeMap<Group, Static<'p>>,
    elements: &'p Elements,
}

#[derive(Debug)]
struct Static<'p> {
    name: &'p str,
    /// Of several of one name with where it is declared.
    title: String,
}

impl<'p> Statics<'p> {
    /// All that there are, those told apart by where they are declared that are accessed.
    pub(super) fn of(program: &'p Program, blocks: &'p Blocks, accessed: impl Iterator<Item = Group>) -> Self {
        let accessed: BTreeSet<Group> = accessed.collect();
        let groups = blocks.groups().map(|(group, _)| (group, program.site(blocks.site_of(group))));
        let statics: Vec<_> = groups.filter(|(_, (_, site))| site.kind == SiteKind::Static).collect();
        let mut of_name: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, (module, site)) in statics.iter().filter(|(group, _)| accessed.contains(group)) {
            *of_name.entry(module.name(site.variable)).or_default() += 1;
        }
        let named = statics.into_iter().map(|(group, (module, site))| {
            let (name, at) = (module.name(site.variable), line(&place(module, site)));
            let is_one_of_several = of_name.get(name).is_some_and(|count| *count > 1) && !at.is_empty();
            let title = if is_one_of_several { format!("{name} ({at})") } else { name.to_owned() };
            (group, Static { name, title })
        });
        Self { of: named.collect(), elements: blocks.elements() }
    }

    /// What a group is called, if it is a static variable's.
    pub(super) fn title(&self, group: Group) -> Option<&str> {
        self.of.get(&group).map(|of| of.title.as_str())
    }

    /// The name of a group without where it is declared, likewise.
    pub(super) fn name(&self, group: Group) -> Option<&'p str> {
        self.of.get(&group).map(|of| of.name)
    }

    /// The type of what a group is made of, as debug information says; empty where that is not known. Of arrays it is that of their elements.
    pub(super) fn type_of<'a>(&self, program: &'a Program, blocks: &Blocks, group: Group) -> &'a str {
        let (module, site) = program.site(blocks.site_of(group));
        if self.of.contains_key(&group) { element_of(module.name(site.detail)) } else { module.name(site.structure) }
    }

    /// Whether a filter wants what a site accesses in a known block.
    pub(super) fn is_wanted(&self, filter: &Filter, (module, site): (&Module, &Site), spot: &Spot) -> bool {
        let structures = || self.elements.names_around(spot.element, spot.leaf);
        filter.wants_in_block(module, site, self.title(spot.group), structures)
    }

    /// What a filter wants of a site's accesses, and those to known data among them.
    pub(super) fn wanted(
        &self,
        filter: &Filter,
        (module, site): (&Module, &Site),
        accesses: Accesses,
        spots: &[(Spot, Accesses)],
    ) -> (Accesses, Vec<(Spot, Accesses)>) {
        let wants_others = filter.wants(module, site);
        let is_wanted = |spot: &Spot| self.is_wanted(filter, (module, site), spot);
        let mut wanted = if wants_others { accesses } else { Accesses::default() };
        for (spot, sum) in spots {
            match (wants_others, is_wanted(spot)) {
                (true, false) => wanted.subtract(*sum),
                (false, true) => wanted.add(*sum),
                _ => {}
            }
        }
        (wanted, spots.iter().filter(|(spot, _)| is_wanted(spot)).copied().collect())
    }
}

/// What an array is of, as C (`double[64][64]`), Rust (`[[f64; 64]; 64]`) or Fortran (`real(kind=8), dimension(64,64)`) spells it; any other type
/// itself, as what Fortran has of an array elsewhere (`dimension(:)`).
fn element_of(type_name: &str) -> &str {
    let of_rusts = |name: &'_ str| name.strip_prefix('[')?.strip_suffix(']')?.rsplit_once(';').map(|(of, _)| of.len());
    let mut element = type_name;
    while let Some(length) = of_rusts(element) {
        element = &element[1..=length];
    }
    if let Some((of, bounds)) = element.split_once(", dimension(") {
        return if bounds.contains(':') { element } else { of };
    }
    match element.split_once('[') {
        // Arrays of functions have them in the midst: `int (*[4])(void)`.
        Some((of, bounds)) if bounds.chars().all(|c| c.is_ascii_digit() || "[] ".contains(c)) && !of.contains('(') => {
            of.trim_end()
        }
        _ => element,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_of_their_elements() {
        for (type_name, element) in [
            ("double[64]", "double"),
            ("float[64][8]", "float"),
            ("unsigned long [3]", "unsigned long"),
            ("struct point *[]", "struct point *"),
            ("[[f64; 64]; 8]", "f64"),
            ("&[u8]", "&[u8]"),
            ("[u8]", "[u8]"),
            ("int (*[4])(void)", "int (*[4])(void)"),
            ("int (*)[4]", "int (*)[4]"),
            ("Vec<[f64; 3]>", "Vec<[f64; 3]>"),
            ("real(kind=8), dimension(50,20)", "real(kind=8)"),
            ("real, dimension(:,:)", "real, dimension(:,:)"),
            ("long", "long"),
            ("", ""),
        ] {
            assert_eq!(element_of(type_name), element, "{type_name}");
        }
    }
}
