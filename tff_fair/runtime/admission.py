"""Decides which computations the runtime may rewrite.

A context may compute all clients in one graph, or cut a cohort into parts. The
result equals TFF's only if each operation that is moved or repeated is
deterministic and has no side effects. So the runtime rewrites only computations
whose operations are all listed in this module. Other computations run step by
step, and a debug message in the log gives the reason.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import phases

# A computation as TFF serializes it.
Message: TypeAlias = Any

_LOG = logging.getLogger(__name__)


def _names(text: str) -> frozenset[str]:
  return frozenset(text.split())


# TFF's intrinsics that do not aggregate, or that aggregate from a neutral zero.
_MERGEABLE = _names(
  """
  federated_apply federated_broadcast federated_eval_at_clients
  federated_eval_at_server federated_map federated_map_all_equal federated_max
  federated_mean federated_min federated_secure_modular_sum federated_secure_sum
  federated_secure_sum_bitwidth federated_sum federated_value_at_clients
  federated_value_at_server federated_weighted_mean federated_zip_at_clients
  federated_zip_at_server
  """
)
_AGGREGATE = "federated_aggregate"

# TensorFlow declares these operations stateful, most of them because they may
# raise errors or call functions. `check_graph` checks these functions, too.
_CONTROL_OPS = _names(
  """
  Assert Case CheckNumerics CheckNumericsV2 DeviceIndex If
  StatefulPartitionedCall StatelessRandomGetAlg While
  """
)
# Operations on variables: each run of a graph has its own copies of the
# variables that it initializes.
VARIABLE = "VarHandleOp"
_VARIABLE_OPS = _names(
  """
  AssignAddVariableOp AssignSubVariableOp AssignVariableOp ReadVariableOp
  ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad
  ResourceApplyAdagradV2 ResourceApplyAdam ResourceApplyAdamWithAmsgrad
  ResourceApplyCenteredRMSProp ResourceApplyFtrl ResourceApplyFtrlV2
  ResourceApplyGradientDescent ResourceApplyKerasMomentum ResourceApplyMomentum
  ResourceApplyRMSProp ResourceGather ResourceGatherNd ResourceScatterAdd
  ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul
  ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin
  ResourceScatterNdSub ResourceScatterNdUpdate ResourceScatterSub
  ResourceScatterUpdate ResourceSparseApplyAdagrad ResourceSparseApplyAdagradV2
  ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum
  ResourceSparseApplyRMSProp ResourceStridedSliceAssign VarHandleOp
  VarIsInitializedOp VariableShape
  """
)
# Operations of datasets that return the same elements in the same order at each
# read. None of them shuffles, draws random numbers, caches, or reads files.
_DATASET_OPS = _names(
  """
  AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 BatchDataset
  BatchDatasetV2 ConcatenateDataset DatasetCardinality DatasetToSingleElement
  DeleteIterator FilterDataset FlatMapDataset InterleaveDataset IteratorGetNext
  IteratorGetNextAsOptional IteratorGetNextSync MakeIterator MapDataset
  ModelDataset OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone
  OptionsDataset PaddedBatchDatasetV2 PrefetchDataset RangeDataset
  ReduceDataset RepeatDataset ScanDataset ShardDataset SkipDataset TakeDataset
  TakeWhileDataset TensorDataset TensorSliceDataset UnbatchDataset WindowDataset
  ZipDataset
  """
)
# Datasets that return the same order after each rebuild from their graph, but
# possibly another order at a second read.
_SHUFFLES = _names(
  """
  ShuffleAndRepeatDataset ShuffleAndRepeatDatasetV2 ShuffleDataset
  ShuffleDatasetV2 ShuffleDatasetV3
  """
)
# Operations that draw different random numbers in each call if both seeds are
# 0. A graph may contain them if each of its computations runs only once.
RANDOM_OPS = _names(
  """
  Multinomial ParameterizedTruncatedNormal RandomGamma RandomPoissonV2
  RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt
  TruncatedNormal
  """
)
_SEEDS = ("seed", "seed2")
# Operations that are arguments or results of graphs.
_ARGUMENT_OPS = frozenset(
  ("Placeholder", "PlaceholderWithDefault", "_Arg", "_Retval")
)
# Operations whose results depend only on their arguments, as TensorFlow
# declares. Only TensorFlow's optimizer creates the last few.
_PURE = _names(
  """
  Abs AccumulateNV2 Acos Acosh Add AddN AddV2 AdjustContrastv2 AdjustHue
  AdjustSaturation All Angle Any ApproxTopK ApproximateEqual ArgMax ArgMin
  AsString Asin Asinh Atan Atan2 Atanh AudioSpectrogram AvgPool AvgPool3D
  AvgPool3DGrad AvgPoolGrad BandedTriangularSolve BatchMatMul BatchMatMulV2
  BatchMatMulV3 BatchToSpace BatchToSpaceND BesselI0 BesselI0e BesselI1
  BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0
  BesselY1 Betainc BiasAdd BiasAddGrad BiasAddV1 Bincount Bitcast BitwiseAnd
  BitwiseOr BitwiseXor BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2
  BroadcastArgs BroadcastGradientArgs BroadcastTo Bucketize
  CSRSparseMatrixComponents CSRSparseMatrixToDense
  CSRSparseMatrixToSparseTensor CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss
  CTCLossV2 Cast Ceil Cholesky CholeskyGrad ClipByValue
  CombinedNonMaxSuppression Complex ComplexAbs Concat ConcatOffset ConcatV2
  Conj ConjugateTranspose Const ControlTrigger Conv Conv2D
  Conv2DBackpropFilter Conv2DBackpropFilterV2 Conv2DBackpropInput
  Conv2DBackpropInputV2 Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2
  Cos Cosh CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage Cross
  Cumprod Cumsum CumulativeLogsumexp DataFormatDimMap DataFormatVecPermute
  Dawsn DecodeAndCropJpeg DecodeBase64 DecodeBmp DecodeCSV DecodeCompressed
  DecodeGif DecodeImage DecodeJSONExample DecodeJpeg DecodePaddedRaw DecodePng
  DecodeRaw DecodeWav DenseBincount DenseCountSparseOutput
  DenseToCSRSparseMatrix DenseToDenseSetOperation DenseToSparseSetOperation
  DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
  DepthwiseConv2dNativeBackpropInput DeserializeManySparse DeserializeSparse
  Diag DiagPart Digamma Dilation2D Dilation2DBackpropFilter
  Dilation2DBackpropInput Div DivNoNan DrawBoundingBoxes DrawBoundingBoxesV2
  DynamicPartition DynamicStitch EditDistance Eig Einsum Elu EluGrad
  EmptyTensorList EncodeBase64 EncodePng EncodeWav EnsureShape Enter Equal Erf
  Erfc Erfinv EuclideanNorm Exit Exp ExpandDims Expint Expm1 ExtractGlimpse
  ExtractGlimpseV2 ExtractImagePatches ExtractJpegShape ExtractVolumePatches
  FFT FFT2D FFT3D FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient
  FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient
  FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient
  Fill Fingerprint Floor FloorDiv FloorMod FresnelCos FresnelSin
  FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3
  FusedBatchNormV2 FusedBatchNormV3 FusedPadConv2D FusedResizeAndPadConv2D
  GRUBlockCell GRUBlockCellGrad Gather GatherNd GatherV2 Greater GreaterEqual
  HSVToRGB HistogramFixedWidth IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D
  Identity IdentityN Igamma IgammaGradA Igammac Imag
  ImageProjectiveTransformV2 ImageProjectiveTransformV3 InTopK InTopKV2 Inv
  InvGrad Invert InvertPermutation IsFinite IsInf IsNan IsotonicRegression
  L2Loss LRN LRNGrad LSTMBlockCell LSTMBlockCellGrad LeakyRelu LeakyReluGrad
  LeftShift Less LessEqual Lgamma LinSpace ListDiff Log Log1p
  LogMatrixDeterminant LogSoftmax LogicalAnd LogicalNot LogicalOr LoopCond
  LowerBound Lu MatMul MatrixBandPart MatrixDeterminant MatrixDiag
  MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
  MatrixInverse MatrixLogarithm MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3
  MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Max MaxPool
  MaxPool3D MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad
  MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2
  MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax Maximum Mean Merge Mfcc
  Min Minimum MirrorPad MirrorPadGrad Mod Mul MulNoNan Ndtri Neg NextAfter
  NextIteration NoOp NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
  NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps
  NotEqual NthElement OneHot OnesLike Pack Pad PadV2 ParallelConcat
  ParallelDynamicStitch ParseExample ParseExampleV2 ParseSequenceExample
  ParseSequenceExampleV2 ParseSingleExample ParseSingleSequenceExample
  ParseTensor PartitionedCall Polygamma PopulationCount Pow PreventGradient
  Prod Qr RFFT RFFT2D RFFT3D RGBToHSV RaggedBincount RaggedCountSparseOutput
  RaggedCross RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather
  RaggedRange RaggedTensorFromVariant RaggedTensorToSparse
  RaggedTensorToTensor RaggedTensorToVariant RaggedTensorToVariantGradient
  RandomGammaGrad Range Rank Real RealDiv Reciprocal ReciprocalGrad ReduceJoin
  RegexFullMatch RegexReplace Relu Relu6 Relu6Grad ReluGrad Reshape ResizeArea
  ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad
  ResizeNearestNeighbor ResizeNearestNeighborGrad Reverse ReverseSequence
  ReverseV2 RightShift Rint Roll Round Rsqrt RsqrtGrad ScaleAndTranslate
  ScaleAndTranslateGrad ScatterNd ScatterNdNonAliasingAdd SegmentMax
  SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2
  SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEigV2 Selu SeluGrad
  SerializeManySparse SerializeSparse SerializeTensor SetSize Shape ShapeN
  Sigmoid SigmoidGrad Sign Sin Sinh Size Slice Snapshot SobolSample Softmax
  SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad
  SpaceToBatch SpaceToBatchND SpaceToDepth SparseAdd SparseAddGrad
  SparseBincount SparseConcat SparseCountSparseOutput SparseCross
  SparseCrossHashed SparseCrossV2 SparseDenseCwiseAdd SparseDenseCwiseDiv
  SparseDenseCwiseMul SparseFillEmptyRows SparseFillEmptyRowsGrad SparseMatMul
  SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixNNZ
  SparseMatrixOrderingAMD SparseMatrixSoftmax SparseMatrixSoftmaxGrad
  SparseMatrixSparseCholesky SparseMatrixSparseMatMul SparseMatrixTranspose
  SparseMatrixZeros SparseReduceMax SparseReduceMaxSparse SparseReduceSum
  SparseReduceSumSparse SparseReorder SparseReshape SparseSegmentMean
  SparseSegmentMeanGrad SparseSegmentMeanGradV2
  SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNGrad
  SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments SparseSegmentSum
  SparseSegmentSumGrad SparseSegmentSumGradV2 SparseSegmentSumWithNumSegments
  SparseSlice SparseSliceGrad SparseSoftmax
  SparseSoftmaxCrossEntropyWithLogits SparseSparseMaximum SparseSparseMinimum
  SparseSplit SparseTensorDenseAdd SparseTensorDenseMatMul
  SparseTensorToCSRSparseMatrix SparseToDense SparseToSparseSetOperation
  Spence Split SplitV Sqrt SqrtGrad Square SquaredDifference Squeeze
  StatelessCase StatelessIf StatelessMultinomial
  StatelessParameterizedTruncatedNormal StatelessRandomBinomial
  StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetKeyCounter
  StatelessRandomGetKeyCounterAlg StatelessRandomNormal
  StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform
  StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
  StatelessRandomUniformInt StatelessRandomUniformIntV2
  StatelessRandomUniformV2 StatelessSampleDistortedBoundingBox
  StatelessShuffle StatelessTruncatedNormal StatelessTruncatedNormalV2
  StatelessWhile StaticRegexFullMatch StaticRegexReplace StopGradient
  StridedSlice StridedSliceGrad StringFormat StringJoin StringLength
  StringLower StringNGrams StringSplit StringSplitV2 StringStrip
  StringToHashBucket StringToHashBucketFast StringToHashBucketStrong
  StringToNumber StringUpper Sub Substr Sum Svd Switch Tan Tanh TanhGrad
  TensorListConcat TensorListConcatLists TensorListConcatV2
  TensorListElementShape TensorListFromTensor TensorListGather
  TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
  TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter
  TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem
  TensorListSplit TensorListStack TensorScatterAdd TensorScatterMax
  TensorScatterMin TensorScatterSub TensorScatterUpdate
  TensorStridedSliceUpdate Tile ToBool TopKV2 Transpose TridiagonalMatMul
  TridiagonalSolve TruncateDiv TruncateMod UnicodeDecode
  UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode Unique
  UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex
  UnsortedSegmentJoin UnsortedSegmentMax UnsortedSegmentMin
  UnsortedSegmentProd UnsortedSegmentSum UpperBound Where Xdivy Xlog1py Xlogy
  ZerosLike Zeta _FusedBatchNormEx _FusedBatchNormGradEx _FusedConv2D
  _FusedConv3D _FusedDepthwiseConv2dNative _FusedMatMul FakeParam
  """
)
_KNOWN = _PURE | _CONTROL_OPS | _VARIABLE_OPS | _DATASET_OPS | _ARGUMENT_OPS

# The oneDNN kernels of these operations store the means and variances of a
# call, so two simultaneous calls of one operation corrupt memory. Keras'
# LayerNormalization uses these operations.
ONE_CALL_AT_A_TIME = _names(
  """
  FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad
  FusedBatchNormGradV2 FusedBatchNormGradV3 _FusedBatchNormEx
  _FusedBatchNormGradEx
  """
)


# The attribute that marks functions with `jit_compile`. Keras, for example,
# computes grouped convolutions in such a function.
_COMPILED = "_XlaMustCompile"


class NotAdmittedError(Exception):
  """The reason why the runtime leaves a computation unchanged."""


def check_graph(graph_def: Any, known: frozenset[str] = _KNOWN) -> None:
  """Raises `NotAdmittedError` unless all operations of a graph are `known`.

  The graph's functions must neither be compiled by XLA nor create variables.
  """
  functions = graph_def.library.function
  known = known | {function.signature.name for function in functions}
  _check_operations((node.op for node in graph_def.node), known)
  for function in functions:
    # Within a loop, a function that XLA compiles would fail with the error
    # "inputs from different frames".
    if _COMPILED in function.attr and function.attr[_COMPILED].b:
      raise NotAdmittedError("a function that XLA compiles")
    operations = {node.op for node in function.node_def}
    if VARIABLE in operations:  # The graph does not initialize such a variable.
      raise NotAdmittedError(f"operation {VARIABLE} in a function")
    _check_operations(operations, known)


def _check_operations(operations: Iterable[str], known: frozenset[str]) -> None:
  unknown = {*operations} - known
  if unknown:
    raise NotAdmittedError(f"operation {min(unknown)}")


def check_function(message: Message) -> None:
  """Checks all TensorFlow graphs in a function, as `check_graph` does."""
  for graph_def in _graphs(message):
    check_graph(graph_def)


def check_function_runs_once(message: Message) -> None:
  """Checks all TensorFlow graphs in a function that runs once per graph run.

  Unlike `check_function`, it allows `RANDOM_OPS` that have no seed.
  """
  for graph_def in _graphs(message):
    check_graph(graph_def, _KNOWN | RANDOM_OPS)
    for node in nodes(graph_def):
      if node.op in RANDOM_OPS and any(node.attr[name].i for name in _SEEDS):
        raise NotAdmittedError(f"operation {node.op} with a seed")


def has_operation(message: Message, names: frozenset[str]) -> bool:
  """Returns whether a computation contains one of the operations `names`."""
  return any(
    node.op in names
    for graph_def in _graphs(message)
    for node in nodes(graph_def)
  )


def nodes(graph_def: Any) -> Iterator[Any]:
  """Yields the nodes of a graph and of the functions in it."""
  yield from graph_def.node
  for function in graph_def.library.function:
    yield from function.node_def


def node_of(name: str) -> str:
  """Returns the node in an input's or tensor's name: X in "X", "X:1", "^X"."""
  return name.removeprefix("^").partition(":")[0]


def _graphs(message: Message) -> Iterator[Any]:
  """Yields all TensorFlow graphs in a computation."""
  for part in _subcomputations(message):
    if part.WhichOneof("computation") == "tensorflow":
      graph_def = tf.compat.v1.GraphDef()
      part.tensorflow.graph_def.Unpack(graph_def)
      yield graph_def


def check_aggregates(comp: tff.Computation) -> None:
  """Checks that a computation's sums over parts of a cohort can be merged."""
  for part in _subcomputations(tff.framework.serialize_computation(comp)):
    kind = part.WhichOneof("computation")
    if kind == "intrinsic" and part.intrinsic.uri not in (
      _MERGEABLE | {_AGGREGATE}
    ):
      raise NotAdmittedError(f"intrinsic {part.intrinsic.uri}")
    if (
      kind == "call"
      and part.call.function.WhichOneof("computation") == "intrinsic"
      and part.call.function.intrinsic.uri == _AGGREGATE
      and not _is_written_for_parts(part.call.argument)
    ):
      raise NotAdmittedError(
        "federated_aggregate with a zero that may not be neutral"
      )


def _is_written_for_parts(argument: Message) -> bool:
  """Returns whether an aggregate's merge contains `WRITTEN_FOR_PARTS`."""
  elements = argument.struct.element
  if len(elements) != 5:
    return False
  return (
    phases.WRITTEN_FOR_PARTS.encode() in elements[3].value.SerializeToString()
  )


def has_intrinsic(comp: tff.Computation, uris: Iterable[str]) -> bool:
  """Returns whether a computation uses one of the TFF intrinsics `uris`."""
  message = tff.framework.serialize_computation(comp)
  content = message.SerializeToString()
  # This search is fast, and usually finds nothing. A match may be only the name
  # of a field.
  if not any(uri.encode() in content for uri in uris):
    return False
  return any(part.intrinsic.uri in uris for part in _subcomputations(message))


def _subcomputations(message: Message) -> Iterator[Message]:
  """Yields a computation and all computations within it."""
  remaining = [message]
  while remaining:
    part = remaining.pop()
    yield part
    match part.WhichOneof("computation"):
      case "lambda":
        remaining.append(getattr(part, "lambda").result)
      case "block":
        remaining += [local.value for local in part.block.local]
        remaining.append(part.block.result)
      case "call":
        remaining.append(part.call.function)
        if part.call.HasField("argument"):
          remaining.append(part.call.argument)
      case "selection":
        remaining.append(part.selection.source)
      case "struct":
        remaining += [element.value for element in part.struct.element]


def is_plain_array(value: Any, type_spec: tff.Type) -> bool:
  """Returns whether a value is a numeric NumPy array of type `type_spec`."""
  return (
    isinstance(type_spec, tff.TensorType)
    and type(value) is np.ndarray
    and value.dtype.isnative
    and issubclass(value.dtype.type, (np.number, np.bool_))
    and type_spec.is_assignable_from(
      tff.TensorType(value.dtype.type, value.shape)
    )
  )


class ReadLimit(enum.IntEnum):
  """How often a client's dataset may be read.

  Attributes:
    UNKNOWN: Nothing is known about the dataset.
    ONCE_PER_REBUILD: Once after each rebuild from its graph: at a second read,
      a dataset that shuffles could return another order.
    UNLIMITED: Any number of times.
  """

  UNKNOWN = 0
  ONCE_PER_REBUILD = 1
  UNLIMITED = 2


def read_limit(dataset_graph: bytes) -> ReadLimit:
  """Returns how often the dataset of a serialized graph may be read."""
  graph_def = tf.compat.v1.GraphDef.FromString(dataset_graph)
  try:
    check_graph(graph_def, _KNOWN | _SHUFFLES)
  except NotAdmittedError as error:
    log("clients' data are read one client after the other", error)
    return ReadLimit.UNKNOWN
  if any(node.op in _SHUFFLES for node in nodes(graph_def)):
    return ReadLimit.ONCE_PER_REBUILD
  return ReadLimit.UNLIMITED


def log(line: str, reason: object) -> None:
  """Logs a line about a computation that is not rewritten, and the reason."""
  _LOG.debug("%s: %s", line, reason)
