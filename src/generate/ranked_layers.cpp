#include "generate/ranked_layers.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/text.h"

namespace vitrine {
namespace {

std::span<std::byte> bytes_of_values(const Tensor& x) { return std::as_writable_bytes(x.values()); }

/// The block of a parameter of a model with one stack.
std::optional<std::size_t> block_of(const std::string& name) {
  constexpr std::string_view kPrefix = "blocks.";
  if (!name.starts_with(kPrefix)) return {};
  return number_in<std::size_t>(
      std::string_view(name).substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size()));
}

struct WeightBytes {
  std::vector<std::int64_t> blocks;
  std::int64_t head = 0;
};

/// Of an embedding that is not the head, only the rows of tokens are read.
WeightBytes weight_bytes(const Model& model) {
  const ModelConfig& config = model.config();
  WeightBytes bytes{std::vector<std::int64_t>(config.blocks.size()), 0};
  for_each_param(config, model.params(), [&](const Param& param, const std::string& name, const Shape& shape) {
    const std::int64_t size = bytes_of(param.view.dtype, shape.count());
    if (const std::optional<std::size_t> block = block_of(name)) {
      bytes.blocks[*block] += size;
    } else if (name == (config.head.tied ? "embed.weight" : "unembed.weight")) {
      bytes.head = size;
    }
  });
  return bytes;
}

}  // namespace

void check_splits(Ranks& ranks, const Model& model) {
  Fingerprint f;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape& shape) {
    const std::string text = fmt::format("{} {} {}", name, name_of(param.view.dtype), to_string(shape));
    f.add(std::as_bytes(std::span(text)));
  });
  const std::uint64_t own = f.value();
  const std::vector<std::uint64_t> all = ranks.gather_values<std::uint64_t>({&own, 1});
  ranks.together([&] {
    if (own != all[0]) throw BadInput("MODEL", "its parameters differ from those of rank 0");
    const ModelConfig& c = model.config();
    if (c.encoder || is_bidirectional(c) || !c.has_head || !c.blocks.front().has_attention()) {
      throw Unsupported("--split", "expected a model that predicts the next token with attention");
    }
  });
}

std::vector<int> divide_layers(std::span<const std::int64_t> bytes, std::int64_t head_bytes, int n) {
  const auto n_layers = static_cast<int>(bytes.size());
  std::vector<std::int64_t> before = {0};  // the bytes before each block
  for (const std::int64_t size : bytes) before.push_back(before.back() + size);
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  // least[r][i]: the largest of r parts of the first i blocks, and where the last of these parts begins.
  struct Cut {
    std::int64_t largest = kNever;
    int first = 0;
  };
  const auto at = [](auto& values, int i) -> auto& { return values[static_cast<std::size_t>(i)]; };
  std::vector<std::vector<Cut>> least(static_cast<std::size_t>(n) + 1, std::vector<Cut>(bytes.size() + 1));
  least[0][0].largest = 0;
  for (int r = 1; r <= n; ++r) {
    for (int end = r; end <= n_layers; ++end) {
      for (int first = r - 1; first < end; ++first) {
        if (at(at(least, r - 1), first).largest == kNever) continue;
        const std::int64_t own = at(before, end) - at(before, first) + (r == n ? head_bytes : 0);
        const std::int64_t largest = std::max(at(at(least, r - 1), first).largest, own);
        if (largest < at(at(least, r), end).largest) at(at(least, r), end) = {largest, first};
      }
    }
  }
  std::vector<int> bounds(static_cast<std::size_t>(n) + 1, n_layers);
  for (int r = n; r > 0; --r) at(bounds, r - 1) = at(at(least, r), at(bounds, r)).first;
  return bounds;
}

RankedLayers::RankedLayers(Ranks& ranks, const Model& model) : ranks_(ranks) {
  check_splits(ranks, model);
  ranks.together([&] {
    const auto n_layers = static_cast<int>(model.config().blocks.size());
    if (ranks.size() > n_layers) {
      throw BadInput("--split", "expected at most as many ranks as layers ({}), got {}", n_layers, ranks.size());
    }
    const WeightBytes bytes = weight_bytes(model);
    bounds_ = divide_layers(bytes.blocks, bytes.head, ranks.size());
  });
}

RankedLayers::~RankedLayers() {
  Tickets all;
  for (const auto& [stream, tickets] : sending_) append(all, tickets);
  if (!ranks_.is_done(all)) ranks_.give_up();
}

void RankedLayers::receive(const Tensor& stream) {
  ranks_.wait(ranks_.receive(ranks_.rank() - 1, bytes_of_values(stream), Channel::control));
}

void RankedLayers::send(const Tensor& stream) {
  while (!sending_.empty() && ranks_.is_done(sending_.front().second)) sending_.pop_front();
  sending_.emplace_back(std::vector<float>(stream.data, stream.data + stream.count()), Tickets());
  const std::vector<float>& copy = sending_.back().first;
  sending_.back().second = ranks_.send(ranks_.rank() + 1, std::as_bytes(std::span(copy)), Channel::control);
}

void RankedLayers::gather(const Tensor&, const Tensor&, std::int64_t) {
  throw InternalError("split", "layers are computed whole");
}

void RankedLayers::share(const Tensor& logits) {
  const int last = ranks_.size() - 1;
  Tickets tickets;
  if (ranks_.rank() < last) tickets = ranks_.receive(last, bytes_of_values(logits), Channel::weights);
  for (int r = 0; ranks_.rank() == last && r < last; ++r) {
    append(tickets, ranks_.send(r, bytes_of_values(logits), Channel::weights));
  }
  ranks_.wait(tickets);
}

}  // namespace vitrine
