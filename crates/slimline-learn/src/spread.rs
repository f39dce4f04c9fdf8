//! A figure that was measured several times.

/// Its values, in the order of their measurement. Figures of no values at all are 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// One a fold or a repeat.
    pub values: Vec<f64>,
}

impl Spread {
    /// Their arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }

    /// The sample's standard deviation, that is with n − 1; 0 of fewer than two.
    pub fn standard_deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (self.values.len().max(2) - 1) as f64).sqrt()
    }

    /// The greatest.
    pub fn greatest(&self) -> f64 {
        self.values.iter().copied().reduce(f64::max).unwrap_or(0.0)
    }

    /// Standard error of the mean, where the values are those of the k folds of a cross-validation; 0 of fewer than two.
    ///
    /// Folds learn from the same samples, so σ/√k would be too small: σ · √(1/k + 1/(k − 1)) (Nadeau & Bengio, "Inference for the
    /// Generalization Error", Machine Learning 52, 2003, where the test set is 1/(k − 1) of the training set).
    pub fn standard_error_of_folds(&self) -> f64 {
        let folds = self.values.len().max(2) as f64;
        self.standard_deviation() * (1.0 / folds + 1.0 / (folds - 1.0)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_hand() {
        let spread = Spread { values: vec![1.0, 2.0, 3.0, 4.0, 5.0] };
        assert_eq!((spread.mean(), spread.greatest()), (3.0, 5.0));
        assert_eq!(spread.standard_deviation(), 2.5_f64.sqrt());
        assert_eq!(spread.standard_error_of_folds(), 2.5_f64.sqrt() * 0.45_f64.sqrt());
    }

    #[test]
    fn of_one_and_of_none() {
        let one = Spread { values: vec![0.5] };
        assert_eq!((one.mean(), one.standard_deviation(), one.standard_error_of_folds()), (0.5, 0.0, 0.0));
        let none = Spread::default();
        assert_eq!((none.mean(), none.standard_deviation(), none.greatest()), (0.0, 0.0, 0.0));
    }
}
