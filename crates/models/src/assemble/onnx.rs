//! Converts ONNX initialisers to safetensors.
//!
//! An export of a PyTorch model keeps parameters under their own names, except the weights of
//! linear layers. The exporter folds `x · Wᵀ` into a `MatMul` with an unnamed, transposed matrix,
//! followed by an `Add` of the bias, which keeps its name. The weight's name is therefore derived
//! from the graph: for `Add(MatMul(x, M), <prefix>.bias)`, `Mᵀ` is `<prefix>.weight`.
//!
//! Only the needed fields are declared here; the protobuf decoder skips the rest of the file. Field
//! numbers are those of `onnx.proto3`, IR version 3 and later.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    path::Path,
};

use prost::Message;
use safetensors::{Dtype, View};

use crate::error::ModelError;

#[derive(Clone, PartialEq, Message)]
struct ModelProto {
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
}

#[derive(Clone, PartialEq, Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorProto>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "4")]
    op_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
    #[prost(double, repeated, tag = "10")]
    double_data: Vec<f64>,
    /// 1: the data is in another file.
    #[prost(int32, tag = "14")]
    data_location: i32,
}

/// `TensorProto.DataType`.
const FLOAT: i32 = 1;
const FLOAT16: i32 = 10;
const DOUBLE: i32 = 11;
const BFLOAT16: i32 = 16;

/// A dense f32 tensor, row-major.
#[derive(Debug, Clone, PartialEq)]
struct Dense {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Dense {
    fn transposed(&self) -> Option<Self> {
        let &[rows, columns] = self.shape.as_slice() else {
            return None;
        };
        let mut values = Vec::with_capacity(self.values.len());
        // Without values, one side is 0 and the other may have any length.
        let columns_of_values = if self.values.is_empty() { 0 } else { columns };
        for column in 0..columns_of_values {
            values.extend((0..rows).map(|row| self.values[row * columns + column]));
        }
        Some(Self {
            shape: vec![columns, rows],
            values,
        })
    }
}

impl View for Dense {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect::<Vec<u8>>()
            .into()
    }

    fn data_len(&self) -> usize {
        self.values.len() * size_of::<f32>()
    }
}

/// Converts the parameters of the ONNX model `data` to a safetensors file `to`, as f32.
///
/// Parameters are the initialisers whose names start with `prefix` (which is removed), and the
/// weights of linear layers found through their biases. Those whose remaining names start with one
/// of `drop` are left out. Errors refer to the model as `name`.
///
/// # Errors
/// [`ModelError::Onnx`] if the model is not valid, has no such parameters, or stores them in an
/// unsupported form.
pub fn convert(data: Vec<u8>, name: &Path, prefix: &str, drop: &[String], to: &Path) -> Result<(), ModelError> {
    let wrong = |message: String| ModelError::Onnx {
        path: name.to_path_buf(),
        message,
    };
    let model = ModelProto::decode(data.as_slice()).map_err(|error| wrong(format!("not protobuf: {error}")))?;
    let graph = model.graph.ok_or_else(|| wrong("it has no graph".into()))?;
    std::mem::drop(data);
    let kept = |name: &str| !drop.iter().any(|start| name.starts_with(start.as_str()));

    let by_name: HashMap<&str, &TensorProto> = graph
        .initializer
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor))
        .collect();
    let mut parameters: BTreeMap<String, Dense> = BTreeMap::new();
    for tensor in &graph.initializer {
        if let Some(name) = tensor.name.strip_prefix(prefix)
            && kept(name)
        {
            parameters.insert(name.to_owned(), dense(tensor).map_err(&wrong)?);
        }
    }
    for (weight, matrix) in linear_weights(&graph, prefix) {
        if !kept(&weight) {
            continue;
        }
        let tensor = by_name
            .get(matrix)
            .ok_or_else(|| wrong(format!("`{weight}`: `{matrix}` is not an initialiser")))?;
        let dense = dense(tensor).map_err(&wrong)?;
        let transposed = dense
            .transposed()
            .ok_or_else(|| wrong(format!("`{matrix}` has shape {:?}, expected a matrix", dense.shape)))?;
        parameters.insert(weight, transposed);
    }
    if parameters.is_empty() {
        return Err(wrong(format!("no initialiser's name starts with `{prefix}`")));
    }
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(parameters, Some(metadata), to)
        .map_err(|error| wrong(format!("writing {}: {error}", to.display())))
}

/// (name of the weight without prefix, name of the transposed matrix) of each linear layer with a
/// named bias.
fn linear_weights<'a>(graph: &'a GraphProto, prefix: &str) -> Vec<(String, &'a str)> {
    let made_by: HashMap<&str, &NodeProto> = graph
        .node
        .iter()
        .flat_map(|node| node.output.iter().map(move |output| (output.as_str(), node)))
        .collect();
    let mut found = Vec::new();
    for add in graph.node.iter().filter(|node| node.op_type == "Add") {
        let [a, b] = add.input.as_slice() else { continue };
        for (bias, product) in [(a, b), (b, a)] {
            let layer = bias.strip_prefix(prefix).and_then(|name| name.strip_suffix(".bias"));
            let matmul = made_by.get(product.as_str()).filter(|node| node.op_type == "MatMul");
            if let (Some(layer), Some(matrix)) = (layer, matmul.and_then(|node| node.input.get(1))) {
                found.push((format!("{layer}.weight"), matrix.as_str()));
            }
        }
    }
    found
}

/// The values of a tensor as f32.
fn dense(tensor: &TensorProto) -> Result<Dense, String> {
    let wrong = |message: String| format!("initialiser `{}`: {message}", tensor.name);
    if tensor.data_location == 1 {
        return Err(wrong("its data is in another file, which is not read".into()));
    }
    let shape: Vec<usize> = tensor
        .dims
        .iter()
        .map(|&dim| usize::try_from(dim).map_err(|_| wrong(format!("dimension {dim}"))))
        .collect::<Result<_, _>>()?;
    let raw = &tensor.raw_data;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "safetensors holds f32; the narrowing is the conversion asked for"
    )]
    let values: Vec<f32> = match tensor.data_type {
        FLOAT if !tensor.float_data.is_empty() => tensor.float_data.clone(),
        FLOAT => chunks(raw).map(f32::from_le_bytes).collect(),
        FLOAT16 => chunks(raw).map(|b| half::f16::from_le_bytes(b).to_f32()).collect(),
        BFLOAT16 => chunks(raw).map(|b| half::bf16::from_le_bytes(b).to_f32()).collect(),
        DOUBLE if !tensor.double_data.is_empty() => tensor.double_data.iter().map(|&v| v as f32).collect(),
        DOUBLE => chunks(raw).map(|b| f64::from_le_bytes(b) as f32).collect(),
        other => {
            return Err(wrong(format!(
                "data type {other} is not a floating-point type read here"
            )));
        }
    };
    let expected = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
    if expected != Some(values.len()) {
        return Err(wrong(format!("{} values for shape {shape:?}", values.len())));
    }
    Ok(Dense { shape, values })
}

/// Whole little-endian words.
fn chunks<const N: usize>(raw: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    raw.chunks_exact(N).filter_map(|chunk| chunk.try_into().ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const PREFIX: &str = "model.0.";

    fn raw(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
        TensorProto {
            dims: dims.to_vec(),
            data_type: FLOAT,
            name: name.into(),
            raw_data: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            ..TensorProto::default()
        }
    }

    fn node(op: &str, input: &[&str], output: &str) -> NodeProto {
        NodeProto {
            input: input.iter().map(ToString::to_string).collect(),
            output: vec![output.into()],
            op_type: op.into(),
        }
    }

    /// `x · M + b` twice (once with the bias first, once with it second), a layer norm, a pooler,
    /// and an unrelated constant.
    fn tiny() -> ModelProto {
        let layer = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        ModelProto {
            graph: Some(GraphProto {
                node: vec![
                    node("MatMul", &["x", "onnx::MatMul_1"], "h1"),
                    node("Add", &["model.0.dense.bias", "h1"], "h2"),
                    node("MatMul", &["h2", "onnx::MatMul_2"], "h3"),
                    node("Add", &["h3", "model.0.pooler.dense.bias"], "h4"),
                    node("Add", &["h4", "h2"], "y"),
                ],
                initializer: vec![
                    raw("model.0.dense.bias", &[3], &[0.5, 0.25, 0.125]),
                    raw("model.0.norm.weight", &[2], &[7.0, 8.0]),
                    raw("model.0.pooler.dense.bias", &[1], &[1.0]),
                    raw("onnx::MatMul_1", &[2, 3], &layer),
                    raw("onnx::MatMul_2", &[3, 1], &[1.0, 1.0, 1.0]),
                    raw("eps", &[], &[1e-12]),
                ],
            }),
        }
    }

    fn convert_model(model: &ModelProto, drop: &[&str]) -> Result<BTreeMap<String, Dense>, ModelError> {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("model.safetensors");
        let drop: Vec<String> = drop.iter().map(ToString::to_string).collect();
        convert(model.encode_to_vec(), Path::new("tiny.onnx"), PREFIX, &drop, &to)?;
        let data = std::fs::read(&to).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&data).unwrap();
        Ok(tensors
            .iter()
            .map(|(name, view)| {
                assert_eq!(view.dtype(), Dtype::F32);
                let values = chunks(view.data()).map(f32::from_le_bytes).collect();
                (
                    name.to_owned(),
                    Dense {
                        shape: view.shape().to_vec(),
                        values,
                    },
                )
            })
            .collect())
    }

    #[test]
    fn a_linear_layers_weight_is_found_through_its_bias_and_transposed() {
        let found = convert_model(&tiny(), &["pooler."]).unwrap();
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            ["dense.bias", "dense.weight", "norm.weight"]
        );
        // M is 2 × 3 (in × out); the layer's weight is out × in.
        let expected = Dense {
            shape: vec![3, 2],
            values: vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0],
        };
        assert_eq!(found["dense.weight"], expected);
        assert_eq!(found["norm.weight"].values, [7.0, 8.0]);
        assert!(convert_model(&tiny(), &[]).unwrap().contains_key("pooler.dense.weight"));
    }

    #[test]
    fn a_matrix_without_values_takes_no_time_whatever_its_shape() {
        let mut model = tiny();
        let graph = model.graph.as_mut().unwrap();
        for tensor in graph
            .initializer
            .iter_mut()
            .filter(|tensor| tensor.name == "onnx::MatMul_1")
        {
            (tensor.dims, tensor.raw_data) = (vec![0, i64::MAX], Vec::new());
        }
        let found = convert_model(&model, &[]).unwrap();
        assert_eq!(found["dense.weight"].shape, [i64::MAX as usize, 0]);
    }

    #[test]
    fn every_way_of_storing_floats_gives_the_same_values() {
        let values = [0.5_f32, -2.0, 1024.0];
        let base = || TensorProto {
            dims: vec![3],
            name: "model.0.a".into(),
            ..TensorProto::default()
        };
        let half: Vec<u8> = values
            .iter()
            .flat_map(|&v| half::f16::from_f32(v).to_le_bytes())
            .collect();
        let brain: Vec<u8> = values
            .iter()
            .flat_map(|&v| half::bf16::from_f32(v).to_le_bytes())
            .collect();
        let double: Vec<u8> = values.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect();
        let doubles = values.iter().map(|&v| f64::from(v)).collect();
        let stored = [
            raw("model.0.a", &[3], &values),
            TensorProto {
                data_type: FLOAT,
                float_data: values.to_vec(),
                ..base()
            },
            TensorProto {
                data_type: FLOAT16,
                raw_data: half,
                ..base()
            },
            TensorProto {
                data_type: BFLOAT16,
                raw_data: brain,
                ..base()
            },
            TensorProto {
                data_type: DOUBLE,
                raw_data: double,
                ..base()
            },
            TensorProto {
                data_type: DOUBLE,
                double_data: doubles,
                ..base()
            },
        ];
        for tensor in stored {
            let graph = GraphProto {
                node: vec![],
                initializer: vec![tensor],
            };
            assert_eq!(
                convert_model(&ModelProto { graph: Some(graph) }, &[]).unwrap()["a"].values,
                values
            );
        }
    }

    #[test]
    fn what_cannot_be_converted_is_named() {
        let with = |tensor: TensorProto| ModelProto {
            graph: Some(GraphProto {
                node: vec![],
                initializer: vec![tensor],
            }),
        };
        let mut short = raw("model.0.a", &[4], &[1.0]);
        let mut outside = raw("model.0.a", &[1], &[1.0]);
        outside.data_location = 1;
        let mut integers = raw("model.0.a", &[1], &[1.0]);
        integers.data_type = 7;
        let mut broken = tiny();
        broken
            .graph
            .as_mut()
            .unwrap()
            .initializer
            .retain(|tensor| tensor.name != "onnx::MatMul_1");
        let cases = [
            ("1 values for shape [4]", with(short.clone())),
            ("another file", with(outside)),
            ("data type 7", with(integers)),
            ("starts with `model.0.`", with(raw("other", &[1], &[1.0]))),
            ("no graph", ModelProto { graph: None }),
            ("`onnx::MatMul_1` is not an initialiser", broken),
        ];
        for (expected, model) in cases {
            let error = convert_model(&model, &[]).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("tiny.onnx"), "{error}");
        }
        short.dims = vec![-1];
        assert!(convert_model(&with(short), &[]).is_err());
        let to = std::env::temp_dir().join("never-written.safetensors");
        let garbage = convert(vec![0xff; 9], Path::new("tiny.onnx"), PREFIX, &[], &to)
            .unwrap_err()
            .to_string();
        assert!(garbage.contains("not protobuf"), "{garbage}");
    }
}
