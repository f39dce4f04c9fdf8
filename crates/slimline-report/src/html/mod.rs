//! Reports as one HTML page each, which needs no other file and no network: [`page`] is what all pages have, [`table`] and [`bar`] are what
//! they show numbers by, and each report has a module.
//!
//! All is there without JavaScript; with it tables are sorted and regions are looked for. No colour says what is not said otherwise.

mod bar;
mod page;
mod regions;
mod table;

pub use self::regions::regions;
