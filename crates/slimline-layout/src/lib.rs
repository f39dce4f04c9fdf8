//! Which objects belong together, and in which order memory should have them.
//!
//! ```text
//!   accesses, by object ──► graph    who is accessed next to whom, how often
//!                             │
//!                             ├─► louvain   communities of objects, communities of these, …
//!                             ├─► fiedler   the order within a community that keeps neighbours near
//!                             ▼
//!                           order    all objects in one row; what that costs, beside other orders
//!   drawing   small graphs, for people
//! ```
//!
//! After the "data-driven spatial locality" of Svetozar Miucin's thesis (2018), chapter 3. Everything is the same in every run: what is
//! drawn is drawn by a seed.

pub mod drawing;
pub mod fiedler;
pub mod graph;
pub mod louvain;
pub mod order;
