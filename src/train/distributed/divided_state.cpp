#include "train/distributed/divided_state.h"

#include <algorithm>

#include "base/checked.h"
#include "tensor/zero_memory.h"

namespace vitrine {
namespace {

bool divides_masters(const Trainable& trainable, Shard shard) {
  return shard >= Shard::optimizer && trainable.dtype() != DType::f32;
}

std::size_t bucket_at(const Slices& slices, std::int64_t place) {
  std::size_t b = 0;
  while (slices.bucket(b).end <= place) ++b;
  return b;
}

/// Sends the elements of an array, which begins at `place`, from rank 0 to the ranks that own them.
void scatter(Ranks& ranks, std::span<float> array, std::int64_t place, const Slices& slices) {
  const auto n = static_cast<std::int64_t>(array.size());
  const std::size_t bucket = bucket_at(slices, place);
  const auto part_of = [&](int rank) {
    const Places slice = slices.slice(bucket, rank);
    const std::int64_t first = std::clamp<std::int64_t>(slice.first - place, 0, n);
    return Places{first, std::clamp<std::int64_t>(slice.end - place, first, n)}.of(std::as_writable_bytes(array),
                                                                                   kFloatBytes);
  };
  if (!ranks.is_first()) return ranks.wait(ranks.receive(0, part_of(ranks.rank()), Channel::weights));
  Tickets tickets;
  for (int r = 1; r < ranks.size(); ++r) append(tickets, ranks.send(r, part_of(r), Channel::weights));
  ranks.wait(tickets);
  for (int r = 1; r < ranks.size(); ++r) give_back(part_of(r));
}

}  // namespace

void KeptParts::filled(const Trainable& trainable, std::size_t n) {
  const bool drops_masters = divides_masters(trainable, shard_), drops_weights = shard_ >= Shard::parameters;
  if (ranks_.is_alone() || trainable.adapter() != nullptr || !(drops_masters || drops_weights)) return;
  const std::span<std::byte> masters = std::as_writable_bytes(trainable.values()), weights = trainable.weights();
  if (n == 0) {
    slices_.emplace(trainable.params(), ranks_.size());
    if (drops_masters) use_small_pages(masters);
    if (drops_weights) use_small_pages(weights);
    return;
  }
  const TrainParam& last = trainable.params()[n - 1];
  const std::int64_t end = last.value - trainable.values().data() + round_up(last.count(), kParamAlignment);
  for (; next_ < slices_->buckets() && slices_->bucket(next_).end <= end; ++next_) {
    if (drops_masters) give_back_others(masters, kFloatBytes, *slices_, next_, ranks_.rank());
    if (drops_weights) give_back_others(weights, size_of(trainable.dtype()), *slices_, next_, ranks_.rank());
  }
}

void share_state(Ranks& ranks, Shard shard, const Trainable& trainable, Optimizer& optimizer, const Slices& slices,
                 bool resumes, const ReadArray& read, ThreadPool& pool, const Kernels& k) {
  const std::span<const TrainParam> params = trainable.params();
  const std::vector<OptimizerArray> moments = optimizer.state(params);
  if (resumes && ranks.is_first()) {
    for (const OptimizerArray& master : masters_of(trainable)) read(master);
  }
  KeptParts kept(ranks, shard);
  kept.filled(trainable, 0);
  for (std::size_t i = 0; i < params.size(); ++i) {
    ranks.broadcast(std::as_writable_bytes(std::span(params[i].value, static_cast<std::size_t>(params[i].count()))));
    trainable.round_weights(i, pool, k);
    kept.filled(trainable, i + 1);
  }
  for (const TrainParam& buffer : trainable.buffers()) {
    ranks.broadcast(std::as_writable_bytes(std::span(buffer.value, static_cast<std::size_t>(buffer.count()))));
  }
  if (!resumes) return;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    if (ranks.is_first()) read(moments[i]);
    if (shard == Shard::none) {
      ranks.broadcast(std::as_writable_bytes(moments[i].values));
    } else {
      scatter(ranks, moments[i].values, params[i % params.size()].value - trainable.values().data(), slices);
    }
  }
}

StateReader::StateReader(Ranks& ranks, Shard shard, const Trainable& trainable, Optimizer& optimizer,
                         const Slices& slices)
    : ranks_(ranks), slices_(slices) {
  for (int i = 0; shard >= Shard::optimizer && i < n_moments(optimizer.config().kind); ++i) {
    areas_.push_back({std::as_writable_bytes(optimizer.moment(i)), kFloatBytes});
  }
  if (divides_masters(trainable, shard)) areas_.push_back({std::as_writable_bytes(trainable.values()), kFloatBytes});
  if (shard >= Shard::parameters) areas_.push_back({trainable.weights(), size_of(trainable.dtype())});
}

std::span<std::byte> StateReader::part(const Request& request, int rank) const {
  const Area& area = areas_[static_cast<std::size_t>(request.area)];
  return slices_.slice(static_cast<std::size_t>(request.bucket), rank).of(area.bytes, area.element);
}

void StateReader::hold(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto has_address = [&](const Area& area) {
    const auto* const at = static_cast<const std::byte*>(address);
    return at >= area.bytes.data() && at < area.bytes.data() + area.bytes.size();
  };
  const auto area = std::find_if(areas_.begin(), areas_.end(), has_address);
  if (area == areas_.end()) return;
  const std::int64_t place = (static_cast<const std::byte*>(address) - area->bytes.data()) / area->element;
  const Request wanted{area - areas_.begin(), static_cast<std::int64_t>(bucket_at(slices_, place))};
  if (wanted == held_) return;
  release();
  Tickets tickets;
  for (int r = 1; r < ranks_.size(); ++r) {
    append(tickets, ranks_.send(r, std::as_bytes(std::span(&wanted, 1)), Channel::control));
    append(tickets, ranks_.receive(r, part(wanted, r), Channel::weights));
  }
  ranks_.wait(tickets);
  held_ = wanted;
}

void StateReader::release() {
  if (held_.area < 0) return;
  const Area& area = areas_[static_cast<std::size_t>(held_.area)];
  give_back_others(area.bytes, area.element, slices_, static_cast<std::size_t>(held_.bucket), ranks_.rank());
  held_ = {};
}

void StateReader::finish() {
  release();
  Tickets tickets;
  for (int r = 1; r < ranks_.size(); ++r) {
    append(tickets, ranks_.send(r, std::as_bytes(std::span(&held_, 1)), Channel::control));
  }
  ranks_.wait(tickets);
}

void StateReader::serve() {
  for (Request request;;) {
    ranks_.wait(ranks_.receive(0, std::as_writable_bytes(std::span(&request, 1)), Channel::control));
    if (request.area < 0) return;
    ranks_.wait(ranks_.send(0, part(request, ranks_.rank()), Channel::weights));
  }
}

}  // namespace vitrine
