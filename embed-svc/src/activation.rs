//! Element-wise functions that a `Dense` module or a classification head can name: functions of
//! `torch.nn` without arguments and weights, with torch's default constants.

/// An element-wise function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elementwise {
    Identity,
    Tanh,
    Sigmoid,
    ReLU,
    ReLU6,
    LeakyReLU,
    ELU,
    CELU,
    SELU,
    GELU,
    SiLU,
    Mish,
    Softplus,
    Softsign,
    LogSigmoid,
    Hardtanh,
    Hardsigmoid,
    Hardswish,
    Tanhshrink,
}

impl Elementwise {
    const ALL: [(Self, &str); 19] = [
        (Self::Identity, "Identity"),
        (Self::Tanh, "Tanh"),
        (Self::Sigmoid, "Sigmoid"),
        (Self::ReLU, "ReLU"),
        (Self::ReLU6, "ReLU6"),
        (Self::LeakyReLU, "LeakyReLU"),
        (Self::ELU, "ELU"),
        (Self::CELU, "CELU"),
        (Self::SELU, "SELU"),
        (Self::GELU, "GELU"),
        (Self::SiLU, "SiLU"),
        (Self::Mish, "Mish"),
        (Self::Softplus, "Softplus"),
        (Self::Softsign, "Softsign"),
        (Self::LogSigmoid, "LogSigmoid"),
        (Self::Hardtanh, "Hardtanh"),
        (Self::Hardsigmoid, "Hardsigmoid"),
        (Self::Hardswish, "Hardswish"),
        (Self::Tanhshrink, "Tanhshrink"),
    ];

    /// The function of a class path such as `torch.nn.modules.activation.Tanh`. Classes of other
    /// packages are not supported, since we do not have their code.
    pub fn of_torch(path: &str) -> Option<Self> {
        let name = path.strip_prefix("torch.nn.")?.rsplit('.').next()?;
        Self::ALL
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(this, _)| *this)
    }

    /// All names, for an error message.
    pub fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }

    /// Applies it in place. Everything but GELU is computed in double precision.
    pub fn apply(self, values: &mut [f32]) {
        match self {
            Self::Identity => {}
            Self::GELU => isomer_kernels::rows::gelu(values),
            _ => {
                for value in values {
                    #[allow(clippy::cast_possible_truncation)]
                    {
                        *value = self.of(f64::from(*value)) as f32;
                    }
                }
            }
        }
    }

    fn of(self, x: f64) -> f64 {
        const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
        const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
        let elu = |alpha: f64| if x > 0.0 { x } else { alpha * x.exp_m1() };
        // ln(1 + eˣ), and x itself above torch's threshold of 20.
        let softplus = |x: f64| if x > 20.0 { x } else { x.exp().ln_1p() };
        match self {
            Self::Identity | Self::GELU => x,
            Self::Tanh => x.tanh(),
            Self::Sigmoid => sigmoid(x),
            // `clamp` and comparisons preserve NaN, so that a later check detects it.
            Self::ReLU => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::ReLU6 => x.clamp(0.0, 6.0),
            Self::LeakyReLU => {
                if x < 0.0 {
                    0.01 * x
                } else {
                    x
                }
            }
            Self::ELU | Self::CELU => elu(1.0),
            Self::SELU => SELU_SCALE * elu(SELU_ALPHA),
            Self::SiLU => x * sigmoid(x),
            Self::Mish => x * softplus(x).tanh(),
            Self::Softplus => softplus(x),
            Self::Softsign => x / (1.0 + x.abs()),
            Self::LogSigmoid => {
                if x < 0.0 {
                    x - x.exp().ln_1p()
                } else {
                    -(-x).exp().ln_1p()
                }
            }
            Self::Hardtanh => x.clamp(-1.0, 1.0),
            Self::Hardsigmoid => (x + 3.0).clamp(0.0, 6.0) / 6.0,
            Self::Hardswish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
            Self::Tanhshrink => x - x.tanh(),
        }
    }
}

/// The logistic function, without overflow at either end.
pub fn sigmoid(x: f64) -> f64 {
    if x < 0.0 {
        let e = x.exp();
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_classes_of_torch_are_known() {
        assert_eq!(
            Elementwise::of_torch("torch.nn.modules.activation.Tanh"),
            Some(Elementwise::Tanh)
        );
        assert_eq!(
            Elementwise::of_torch("torch.nn.modules.linear.Identity"),
            Some(Elementwise::Identity)
        );
        for other in ["evil.Tanh", "torch.nn.modules.activation.PReLU", "Tanh", ""] {
            assert_eq!(Elementwise::of_torch(other), None, "{other}");
        }
    }

    #[test]
    fn a_nan_stays_one_through_every_function() {
        for (function, name) in Elementwise::ALL {
            let mut values = [f32::NAN];
            function.apply(&mut values);
            assert!(values[0].is_nan(), "{name}");
        }
    }
}
