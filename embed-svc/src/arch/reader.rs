//! Creates layers on a backend from the tensors of a checkpoint.
//!
//! An architecture lists its tensors once, in [`Build::build`]. That function runs twice. The first
//! run uses [`Names`] and only checks that every tensor exists, so that an error can list all
//! missing tensors before anything is copied. The second run uses the backend.

use std::ops::Range;

use super::Architecture;
use crate::{
    backend::{Heads, Layers, NormWeights, PositionWeights, Rotation, candle::Candle, cpu::Cpu},
    device::Device,
    error::EmbedError,
    weights::{Floats, Table, Weights},
};

/// The configuration of an architecture, from which it can be built.
pub(super) trait Build {
    /// The architecture with layers of type `L`.
    type On<L: Layers>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Self::On<L>, EmbedError>;
}

pub(super) fn place<C: Build>(
    config: &C,
    weights: &Weights,
    device: &Device,
) -> Result<Box<dyn Architecture>, EmbedError>
where
    C::On<Cpu>: Architecture + 'static,
    C::On<Candle>: Architecture + 'static,
{
    let mut names = Reader::new(weights, &Names, true);
    config.build(&mut names)?;
    if !names.missing.is_empty() {
        return Err(weights.missing(&names.missing));
    }
    Ok(match device {
        Device::Cpu => Box::new(config.build(&mut Reader::new(weights, &Cpu::default(), false))?),
        Device::CpuRounded(rounding) => {
            let cpu = Cpu::rounded(*rounding);
            Box::new(config.build(&mut Reader::new(weights, &cpu, false))?)
        }
        Device::Candle { device, precision } => {
            let candle = Candle::new(device.clone(), *precision)?;
            Box::new(config.build(&mut Reader::new(weights, &candle, false))?)
        }
    })
}

/// Layers without contents.
#[derive(Clone)]
struct Names;

impl Layers for Names {
    type Linear = ();
    type Norm = ();
    type Table = ();
    type Rotary = ();
    type Bias = ();
    type Positions = ();

    fn linear(&self, _: &[f32], _: Option<&[f32]>, _: usize, _: usize) -> Result<(), EmbedError> {
        Ok(())
    }

    fn norm(&self, _: NormWeights<'_>, _: f32) -> Result<(), EmbedError> {
        Ok(())
    }

    fn table(&self, _: Table) -> Result<(), EmbedError> {
        Ok(())
    }

    fn rotary(&self, _: Rotation, _: usize) -> Result<(), EmbedError> {
        Ok(())
    }

    fn bias(&self, _: Vec<f32>, _: usize, _: usize) -> Result<(), EmbedError> {
        Ok(())
    }

    fn positions(&self, _: PositionWeights, _: Heads) -> Result<(), EmbedError> {
        Ok(())
    }
}

/// A kind of normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NormKind {
    /// Layer normalisation with a bias.
    Layer,
    /// Layer normalisation without a bias.
    LayerNoBias,
    /// Root mean square.
    Rms,
    /// Root mean square whose stored factor is 1 too small (Gemma).
    RmsPlusOne,
}

/// Makes layers from tensors, by name.
pub(super) struct Reader<'a, L> {
    weights: &'a Weights,
    layers: &'a L,
    prefix: &'static str,
    names_only: bool,
    missing: Vec<String>,
}

impl<'a, L: Layers> Reader<'a, L> {
    fn new(weights: &'a Weights, layers: &'a L, names_only: bool) -> Self {
        Self {
            weights,
            layers,
            prefix: "",
            names_only,
            missing: Vec::new(),
        }
    }

    /// The backend that creates the layers.
    pub(super) fn layers(&self) -> L {
        self.layers.clone()
    }

    /// Chooses the prefix of all names: the first of `prefixes` under which `probe` exists.
    pub(super) fn find_prefix(&mut self, prefixes: &[&'static str], probe: &str) {
        let found = |prefix: &&&'static str| self.weights.has(&format!("{prefix}{probe}"));
        self.prefix = prefixes.iter().find(found).copied().unwrap_or_default();
    }

    /// Whether a tensor exists.
    pub(super) fn has(&self, name: &str) -> bool {
        self.weights.has(&format!("{}{name}", self.prefix))
    }

    /// The file's name of a tensor that is to be read now. In the first pass the tensor is only
    /// checked, and recorded if it is missing.
    fn locate(&mut self, name: &str, shape: &[usize]) -> Result<Option<String>, EmbedError> {
        let full = format!("{}{name}", self.prefix);
        // Old checkpoints converted from TensorFlow call the two vectors of a norm gamma and beta.
        let old = [
            ("LayerNorm.weight", "LayerNorm.gamma"),
            ("LayerNorm.bias", "LayerNorm.beta"),
        ]
        .iter()
        .find_map(|(new, old)| full.strip_suffix(new).map(|stem| format!("{stem}{old}")));
        let there = if self.weights.has(&full) {
            full
        } else if let Some(old) = old.filter(|old| self.weights.has(old)) {
            old
        } else {
            self.missing.push(full);
            return Ok(None);
        };
        if self.names_only {
            self.weights.check(&there, shape)?;
            return Ok(None);
        }
        Ok(Some(there))
    }

    /// The values of a tensor; empty in the first pass.
    pub(super) fn values(&mut self, name: &str, shape: &[usize]) -> Result<Floats, EmbedError> {
        match self.locate(name, shape)? {
            Some(name) => self.weights.get(&name, shape),
            None => Ok(Floats::empty()),
        }
    }

    /// One linear layer stacked from several tensors, `(name, outputs)`: their outputs are side by
    /// side.
    pub(super) fn linear(
        &mut self,
        parts: &[(String, usize)],
        inputs: usize,
        bias: bool,
    ) -> Result<L::Linear, EmbedError> {
        let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
        let (mut all, mut biases) = (Vec::new(), Vec::new());
        for (name, outputs) in parts {
            let values = self.values(&format!("{name}.weight"), &[*outputs, inputs])?;
            if let [_] = parts {
                let biases = bias.then(|| self.values(&format!("{name}.bias"), &[*outputs]));
                return self
                    .layers
                    .linear(&values, biases.transpose()?.as_deref(), *outputs, inputs);
            }
            all.extend_from_slice(&values);
            if bias {
                biases.extend_from_slice(&self.values(&format!("{name}.bias"), &[*outputs])?);
            }
        }
        self.layers.linear(&all, bias.then_some(&biases), outputs, inputs)
    }

    /// Some outputs of a tensor that contains several layers: the rows `rows` of `outputs`.
    pub(super) fn linear_rows(
        &mut self,
        name: &str,
        rows: Range<usize>,
        outputs: usize,
        inputs: usize,
        bias: bool,
    ) -> Result<L::Linear, EmbedError> {
        let values = self.values(&format!("{name}.weight"), &[outputs, inputs])?;
        let biases = bias
            .then(|| self.values(&format!("{name}.bias"), &[outputs]))
            .transpose()?;
        let weights = values.get(rows.start * inputs..rows.end * inputs).unwrap_or_default();
        let biases = biases
            .as_ref()
            .map(|biases| biases.get(rows.clone()).unwrap_or_default());
        self.layers.linear(weights, biases, rows.len(), inputs)
    }

    /// A linear layer without bias whose weights are computed from tensors, in the second pass
    /// only.
    pub(super) fn computed(
        &self,
        outputs: usize,
        inputs: usize,
        weights: impl FnOnce() -> Vec<f32>,
    ) -> Result<L::Linear, EmbedError> {
        let weights = if self.names_only { Vec::new() } else { weights() };
        self.layers.linear(&weights, None, outputs, inputs)
    }

    /// A normalisation of `width` columns.
    pub(super) fn norm(&mut self, name: &str, width: usize, kind: NormKind, eps: f32) -> Result<L::Norm, EmbedError> {
        let gamma = self.values(&format!("{name}.weight"), &[width])?;
        match kind {
            NormKind::Layer => {
                let beta = self.values(&format!("{name}.bias"), &[width])?;
                let (gamma, beta) = (&gamma[..], Some(&beta[..]));
                self.layers.norm(NormWeights::Layer { gamma, beta }, eps)
            }
            NormKind::LayerNoBias => {
                let weights = NormWeights::Layer {
                    gamma: &gamma,
                    beta: None,
                };
                self.layers.norm(weights, eps)
            }
            NormKind::Rms => self.layers.norm(NormWeights::Rms { gamma: &gamma }, eps),
            NormKind::RmsPlusOne => {
                let gamma: Vec<f32> = gamma.iter().map(|gamma| 1.0 + gamma).collect();
                self.layers.norm(NormWeights::Rms { gamma: &gamma }, eps)
            }
        }
    }

    pub(super) fn table(&mut self, name: &str, rows: usize, width: usize) -> Result<L::Table, EmbedError> {
        let table = match self.locate(&format!("{name}.weight"), &[rows, width])? {
            Some(name) => self.weights.table(&name, rows, width)?,
            None => Table::held(Floats::empty(), width),
        };
        self.layers.table(table)
    }

    pub(super) fn rotary(&mut self, rotation: Rotation, longest: usize) -> Result<L::Rotary, EmbedError> {
        self.layers.rotary(rotation, longest)
    }

    /// A bias by distance; `value(head, key position - query position)` gives its values.
    pub(super) fn bias(
        &mut self,
        heads: usize,
        longest: usize,
        value: impl Fn(usize, isize) -> f32,
    ) -> Result<L::Bias, EmbedError> {
        if self.names_only {
            return self.layers.bias(Vec::new(), heads, longest);
        }
        let reach = isize::try_from(longest).unwrap_or(isize::MAX) - 1;
        let values = (0..heads).flat_map(|head| (-reach..=reach).map(move |distance| (head, distance)));
        let values = values.map(|(head, distance)| value(head, distance)).collect();
        self.layers.bias(values, heads, longest)
    }

    /// Learnt positions; `weights` computes them in the second pass.
    pub(super) fn positions(
        &mut self,
        heads: Heads,
        weights: impl FnOnce() -> PositionWeights,
    ) -> Result<L::Positions, EmbedError> {
        let weights = if self.names_only {
            PositionWeights::default()
        } else {
            weights()
        };
        self.layers.positions(weights, heads)
    }
}
