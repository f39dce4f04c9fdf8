//! Which of the processes of a parallel run this is, as launchers tell them.

/// Variables with the number of a process in its run and how many there are, most specific first: `mpirun` of Open MPI, the
/// process managers of MPICH and Intel MPI, Slurm's `srun`.
pub const RANK_VARIABLES: [[&str; 2]; 4] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["PMIX_RANK", "PMIX_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
];

/// One of the processes of a parallel run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number, from 0.
    pub number: u32,
    /// How many there are, where the launcher tells.
    pub of: Option<u32>,
}

impl Rank {
    /// From the environment, as `value_of` gives it. A run of one process is not parallel.
    pub fn of(value_of: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number_in = |name| value_of(name)?.trim().parse::<u32>().ok();
        let found = RANK_VARIABLES.iter().find_map(|[rank, size]| Some((number_in(rank)?, number_in(size))))?;
        match found {
            (_, Some(0 | 1)) => None,
            (number, of) => Some(Self { number, of }),
        }
    }

    /// Name of its session in the directory of the run.
    pub fn directory(self) -> String {
        format!("rank-{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_told_apart_by_their_variables() {
        let rank = |variables: &[(&str, &str)]| {
            let value_of =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            Rank::of(value_of).map(|rank| (rank.number, rank.of))
        };
        assert_eq!(rank(&[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")]), Some((3, Some(4))));
        assert_eq!(rank(&[("PMI_RANK", "0")]), Some((0, None)));
        // mpirun within a batch script of Slurm's, which is task 0 of 1 itself.
        let both = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1"), ("PMI_RANK", "2"), ("PMI_SIZE", "8")];
        assert_eq!(rank(&both), Some((2, Some(8))));
        assert_eq!(rank(&both[..2]), None, "not parallel");
        assert_eq!(rank(&[("PMI_RANK", "no number")]), None);
        assert_eq!(rank(&[]), None);
    }
}
