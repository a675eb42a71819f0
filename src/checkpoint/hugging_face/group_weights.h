// Joins the tensors of weights whose codes are in groups. NAME is a layer's.
//
//   gptq          NAME.qweight I32 [in · bits / 32, out], .qzeros I32 [groups, out · bits / 32], .scales [groups, out],
//                 .g_idx I32 [in], the group of each column
//   awq           NAME.qweight I32 [in, out / 8], .qzeros I32 [groups, out / 8], .scales [groups, out]
//   bitsandbytes  NAME.weight U8 with two codes a byte, .weight.absmax, .weight.quant_map,
//                 .weight.quant_state.bitsandbytes__nf4 or __fp4, a JSON text; or NAME.weight I8, NAME.SCB [out]
//   compressed-tensors
//                 NAME.weight_packed I32 [out, in · bits / 32], .weight_scale [out, groups], .weight_shape I64 [2],
//                 .weight_zero_point I32 [out · bits / 32, groups], .weight_g_idx; or NAME.weight I8, .weight_scale,
//                 .weight_zero_point I8
//
// Source: AutoGPTQ, nn_modules/qlinear; AutoAWQ, utils/packing_utils.py; bitsandbytes, functional.py, QuantState;
// compressed-tensors, compressors.
#pragma once

#include "checkpoint/bind_tensors.h"
#include "checkpoint/hugging_face/group_config.h"

namespace vitrine {

/// Each joins the tensors of every weight that is packed by its method to one tensor, under the weight's name. Throws
/// BadCheckpoint if one of them is missing or does not fit.
void join_gptq(const GroupConfig& config, StoredTensors& tensors);
void join_awq(const GroupConfig& config, StoredTensors& tensors);
void join_bitsandbytes(const GroupConfig& config, StoredTensors& tensors);
void join_compressed(const GroupConfig& config, StoredTensors& tensors);

}  // namespace vitrine
