// An op that has run, and what it computed with besides its operands.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "kernels/kernels.h"

namespace vitrine {

enum class OpKind : std::uint8_t;       // ops/op_kind.h
std::string_view name_of(OpKind kind);  ///< `attend_score`
/// Whether an op is linear in its inputs, apart from constants that it adds, once patterns and divisors are constants.
bool is_linear(OpKind kind);

struct NormConfig;
struct RopeConfig;
struct AttendConfig;

/// What an op of a kind computes with besides its operands. Configs are those of the model, which outlive the pass.
using OpSettings =
    std::variant<std::monostate, float, Activation, const NormConfig*, const RopeConfig*, const AttendConfig*>;

/// An op that has run, without its operands.
struct OpCall {
  OpKind kind;
  OpSettings settings;

  OpCall(OpKind of, OpSettings with = {}) : kind(of), settings(with) {}  // NOLINT: implicit
};

}  // namespace vitrine
