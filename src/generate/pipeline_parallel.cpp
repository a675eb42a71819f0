#include "generate/pipeline_parallel.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "model/sites.h"
#include "pass/pass.h"

namespace vitrine {
namespace {

std::span<std::byte> bytes_of_values(const Tensor& x) { return std::as_writable_bytes(x.values()); }

/// The block of a parameter of a stack.
std::optional<std::size_t> block_of(std::string_view name, Stack stack) {
  const std::string_view prefix = stack == Stack::only ? "blocks." : stack == Stack::encoder ? "encoder." : "decoder.";
  if (!name.starts_with(prefix)) return {};
  name.remove_prefix(prefix.size());
  return number_in<std::size_t>(name.substr(0, name.find('.')));
}

/// What a rank writes to rank 0 before a value of its blocks that the taps want, and after the last one.
struct Announcement {
  enum class Of : std::uint8_t { value, step, steps };
  std::size_t site = 0;  ///< number_of(): a Site has addresses of this process.
  int layer = -1, segment = -1, expert = SiteId::kNoExpert;
  Stack stack = Stack::only;
  bool cross = false;
  Of of = Of::value;
  std::int64_t first = 0, count = 0;  ///< The elements of a step.
  int n_sizes = 0;                    ///< Of the shape; 0: there is no further value.
  std::array<std::int64_t, Shape::kMaxRank> sizes{};

  Announcement() = default;
  Announcement(const SiteId& id, const Shape& shape)
      : site(number_of(id.site)),
        layer(id.layer),
        segment(id.segment),
        expert(id.expert),
        stack(id.stack),
        cross(id.cross),
        n_sizes(shape.rank()) {
    for (int i = 0; i < n_sizes; ++i) sizes[static_cast<std::size_t>(i)] = shape[i];
  }

  SiteId id() const { return {all_sites()[site], layer, segment, expert, stack, cross}; }
  Shape shape() const {
    switch (n_sizes) {
      case 1:
        return {sizes[0]};
      case 2:
        return {sizes[0], sizes[1]};
      case 3:
        return {sizes[0], sizes[1], sizes[2]};
      default:
        return {sizes[0], sizes[1], sizes[2], sizes[3]};
    }
  }
};

template <class T>
std::span<std::byte> bytes_of_object(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

}  // namespace

std::vector<int> divide_layers(std::span<const std::int64_t> bytes, int n) {
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
        const std::int64_t own = at(before, end) - at(before, first);
        const std::int64_t largest = std::max(at(at(least, r - 1), first).largest, own);
        if (largest < at(at(least, r), end).largest) at(at(least, r), end) = {largest, first};
      }
    }
  }
  std::vector<int> bounds(static_cast<std::size_t>(n) + 1, n_layers);
  for (int r = n; r > 0; --r) at(bounds, r - 1) = at(at(least, r), at(bounds, r)).first;
  return bounds;
}

PipelineParallelModel::PipelineParallelModel(Ranks& ranks, const std::shared_ptr<const Model>& model)
    : DistributedModel(ranks, model) {
  ranks.together([&] {
    bounds_ = divide(*model, model->config().stack());
    if (model->config().encoder) encoder_bounds_ = divide(*model, Stack::encoder);
  });
  finish(model->config(), model->params());
}

/// The bounds of the ranks in a stack.
std::vector<int> PipelineParallelModel::divide(const Model& model, Stack stack) const {
  const StackConfig& c = stack == Stack::encoder ? *model.config().encoder : model.config();
  for (std::size_t i = 0; i < c.n_layers(); ++i) {
    if (!c.per_layer && can_begin_at(c, i)) continue;
    throw Unsupported("--split layers",
                      "expected layers that read the stream alone, not keys and values of earlier "
                      "layers or per-layer embeddings; --split heads runs this model");
  }
  if (ranks_.size() > static_cast<int>(c.n_layers())) {
    throw BadInput("--split", "expected at most as many ranks as layers ({}), got {}", c.n_layers(), ranks_.size());
  }
  std::vector<std::int64_t> bytes(c.n_layers());
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape& shape) {
    if (const auto block = block_of(name, stack)) bytes[*block] += bytes_of(param.view.dtype, shape.count());
  });
  return divide_layers(bytes, ranks_.size());
}

PipelineParallelModel::~PipelineParallelModel() {
  Tickets all;
  for (const auto& [stream, tickets] : sending_) append(all, tickets);
  if (!ranks_.is_done(all)) ranks_.give_up();
}

void PipelineParallelModel::receive(const Tensor& stream) {
  ranks_.wait(ranks_.receive(ranks_.rank() - 1, bytes_of_values(stream), Channel::control));
}

/// With taps, rank 0 then waits for the values of the other ranks, in the order of the blocks.
void PipelineParallelModel::send(Pass& p, const Tensor& stream) {
  release_embedding();
  while (!sending_.empty() && ranks_.is_done(sending_.front().second)) sending_.pop_front();
  if (ranks_.rank() < ranks_.size() - 1) {
    sending_.emplace_back(std::vector<float>(stream.data, stream.data + stream.count()), Tickets());
    const std::vector<float>& copy = sending_.back().first;
    sending_.back().second = ranks_.send(ranks_.rank() + 1, std::as_bytes(std::span(copy)), Channel::control);
  }
  if (p.taps == nullptr) return;
  if (ranks_.is_first()) {
    for (int r = 1; r < ranks_.size(); ++r) show_values_of(r, p);
  } else {
    Announcement last;
    ranks_.wait(ranks_.send(0, bytes_of_object(last), Channel::weights));
  }
}

void PipelineParallelModel::share(const Tensor& rows) {
  const int last = ranks_.size() - 1;
  Tickets tickets;
  if (ranks_.rank() < last) tickets = ranks_.receive(last, bytes_of_values(rows), Channel::weights);
  for (int r = 0; ranks_.rank() == last && r < last; ++r) {
    append(tickets, ranks_.send(r, bytes_of_values(rows), Channel::weights));
  }
  ranks_.wait(tickets);
}

/// All ranks compute the head, so their taps see its values.
Tensor PipelineParallelModel::visit(Pass& p, const SiteId& id, const Tensor& value) {
  if (ranks_.is_first() || id.layer < 0) return p.taps->visit(p, id, value);
  Announcement next(id, value.shape);
  bool is_changed = false;
  Tickets tickets = ranks_.send(0, bytes_of_object(next), Channel::weights);
  append(tickets, ranks_.send(0, bytes_of_values(value), Channel::weights));
  append(tickets, ranks_.receive(0, bytes_of_object(is_changed), Channel::weights));
  ranks_.wait(tickets);
  if (!is_changed) return value;
  const Tensor changed = p.tensor(value.shape);
  ranks_.wait(ranks_.receive(0, bytes_of_values(changed), Channel::weights));
  return changed;
}

/// Rank 0 has the rows of a value up to the current step, so that its taps see it as those of one process do.
void PipelineParallelModel::visit_step(Pass& p, const SiteId& id, const Tensor& value, std::int64_t first,
                                       std::int64_t count) {
  if (ranks_.is_first() || id.layer < 0) return p.taps->visit_step(p, id, value, first, count, {});
  Announcement next(id, value.shape);
  next.of = Announcement::Of::step;
  next.first = first, next.count = count;
  const Tensor step{value.data + first, {count}};
  ranks_.wait(ranks_.send(0, bytes_of_object(next), Channel::weights));
  ranks_.wait(ranks_.send(0, bytes_of_values(step), Channel::weights));
  ranks_.wait(ranks_.receive(0, bytes_of_values(step), Channel::weights));
}

void PipelineParallelModel::visit_steps(Pass& p, const SiteId& id, const Tensor& value) {
  if (ranks_.is_first() || id.layer < 0) return p.taps->visit_steps(p, id, value);
  Announcement next(id, value.shape);
  next.of = Announcement::Of::steps;
  Tickets tickets = ranks_.send(0, bytes_of_object(next), Channel::weights);
  append(tickets, ranks_.send(0, bytes_of_values(value), Channel::weights));
  ranks_.wait(tickets);
}

/// On rank 0: the other end of visit_step().
void PipelineParallelModel::show_step_of(int rank, Pass& p, const SiteId& id, const Shape& shape, std::int64_t first,
                                         std::int64_t count) {
  if (stepped_.size() != static_cast<std::size_t>(shape.count())) {
    stepped_.assign(static_cast<std::size_t>(shape.count()), 0.0f);
  }
  const Tensor value{stepped_.data(), shape}, own{stepped_.data() + first, {count}};
  ranks_.wait(ranks_.receive(rank, bytes_of_values(own), Channel::weights));
  p.taps->visit_step(p, id, value, first, count, {});
  ranks_.wait(ranks_.send(rank, bytes_of_values(own), Channel::weights));
}

/// On rank 0: the other end of visit().
void PipelineParallelModel::show_values_of(int rank, Pass& p) {
  while (true) {
    Announcement next;
    ranks_.wait(ranks_.receive(rank, bytes_of_object(next), Channel::weights));
    if (next.n_sizes == 0) return;
    if (next.of == Announcement::Of::step) {
      show_step_of(rank, p, next.id(), next.shape(), next.first, next.count);
      continue;
    }
    const ArenaScope scope(p.arena);
    const Tensor value = p.tensor(next.shape());
    ranks_.wait(ranks_.receive(rank, bytes_of_values(value), Channel::weights));
    if (next.of == Announcement::Of::steps) {
      p.taps->visit_steps(p, next.id(), value);
      continue;
    }
    const Tensor result = p.taps->visit(p, next.id(), value);
    bool is_changed = result.data != value.data;
    Tickets tickets = ranks_.send(rank, bytes_of_object(is_changed), Channel::weights);
    if (is_changed) append(tickets, ranks_.send(rank, bytes_of_values(result), Channel::weights));
    ranks_.wait(tickets);
  }
}

}  // namespace vitrine
