#include "generate/distributed_model.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/mapped_file.h"

namespace vitrine {
namespace {

/// The lines of a matrix that are contiguous in memory: its rows, or, if it is stored transposed, its columns.
struct Lines {
  std::int64_t count, size, stride;  // in elements

  explicit Lines(const MatrixView& m) : count(m.rows), size(m.cols), stride(m.row_stride) {
    if (m.col_stride != 1) *this = {m.cols, m.rows, m.col_stride};
  }
  Lines(std::int64_t n, std::int64_t elements, std::int64_t distance) : count(n), size(elements), stride(distance) {}
};

/// The memory of a matrix, from its first element to its last.
std::span<const std::byte> memory_of(const MatrixView& m) {
  const Lines lines(m);
  const std::int64_t bytes = bytes_of(m.dtype, (lines.count - 1) * lines.stride + lines.size);
  return {m.data, static_cast<std::size_t>(bytes)};
}

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
    if (!c.layers.empty() || (c.encoder && !c.encoder->layers.empty())) {
      throw Unsupported("--split", "expected a model with a residual stream, not one of recurrent or dense layers");
    }
    const auto shares = [](const BlockConfig& block) { return block.same_as.has_value(); };
    const auto any_shares = [&](const StackConfig& stack) {
      return std::any_of(stack.blocks.begin(), stack.blocks.end(), shares);
    };
    if (any_shares(c) || (c.encoder && any_shares(*c.encoder))) {
      throw Unsupported("--split", "expected layers with parameters of their own, not layers that share them");
    }
  });
}

}  // namespace

std::byte* WeightCopies::allocate(std::int64_t bytes) {
  constexpr std::int64_t kChunk = std::int64_t{64} << 20, kAlignment = 64;
  if (chunks_.empty() || used_ + bytes > chunks_.back().size()) {
    chunks_.emplace_back(std::max(bytes, kChunk), "the weights of this rank");
    used_ = 0;
  }
  std::byte* const to = chunks_.back().bytes() + used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return to;
}

MatrixView WeightCopies::add(const MatrixView& part) {
  Lines lines(part);
  if (has_groups(part.dtype)) {  // rows may end within a block
    const std::int64_t unit = block_size(part.dtype).elements;
    lines.size = (lines.size + unit - 1) / unit * unit;
    if (part.scales.groups->places != nullptr && lines.size != lines.stride) {
      throw Unsupported("--split", "expected weights whose columns are in order, got columns in the order of g_idx");
    }
  }
  const std::int64_t bytes = bytes_of(part.dtype, lines.size);
  std::byte* const to = allocate(lines.count * bytes);
  for (std::int64_t i = 0; i < lines.count; ++i) {
    std::memcpy(to + i * bytes, part.data + bytes_of(part.dtype, i * lines.stride), static_cast<std::size_t>(bytes));
  }
  const bool is_transposed = part.col_stride != 1;
  return {to,         part.dtype, part.rows, part.cols, is_transposed ? 1 : lines.size, is_transposed ? part.rows : 1,
          part.scales};
}

DistributedModel::DistributedModel(Ranks& ranks, std::shared_ptr<const Model> model)
    : ranks_(ranks), whole_(std::move(model)) {
  check_splits(ranks, *whole_);
}

std::int64_t DistributedModel::bound(const Parts&, std::int64_t width, int n) const {
  return width * n / ranks_.size();
}

Param DistributedModel::part_of(const Param& param, Range range) {
  if (!param.present()) return param;
  Param part = param;
  const bool is_vector = param.shape.rank() == 1;
  part.view =
      is_vector ? param.view.col_range(range.first, range.size()) : param.view.row_range(range.first, range.size());
  part.shape = is_vector ? Shape{range.size()} : Shape{range.size(), param.shape[1]};
  return part;
}

void DistributedModel::keep_rows(LinearParams& w, Range rows) {
  if (!w.weight.present()) return;
  rows_[w.weight.name] = rows;
  const MatrixView whole = w.weight.view;
  w.weight = part_of(w.weight, rows);
  w.weight.view = copies_->add(w.weight.view);
  MappedFile::release(memory_of(whole));
  w.bias = part_of(w.bias, rows);
}

void DistributedModel::keep_part(LinearParams& w) {
  if (!w.weight.present()) return;
  const std::int64_t n_rows = w.weight.shape[0];
  if (n_rows < ranks_.size()) {
    throw Unsupported("--split", "{} has {} rows, fewer than ranks", w.weight.name, n_rows);
  }
  keep_rows(w, columns_of_rank({}, n_rows));
}

void DistributedModel::finish(ModelConfig config, ModelParams params) {
  if (config.has_head && config.head.tied) {
    const std::string name = params.unembed.weight.name;
    params.unembed.weight = params.embed;
    params.unembed.weight.name = name;
  }
  config.head.tied = false;
  ranks_.together([&] { keep_part(params.unembed); });
  const std::vector<std::shared_ptr<const void>> storage = {whole_, copies_};
  part_ = std::make_shared<const Model>(std::move(config), std::move(params), storage);
}

std::shared_ptr<const Adapter> DistributedModel::part_of(const Adapter& adapter) {
  Adapter part = adapter;
  for (auto& [name, low] : part.maps) {
    const auto found = rows_.find(name);
    if (found == rows_.end()) continue;
    const Range rows = found->second;
    low.b = part_of(low.b, rows);
    if (!low.magnitudes) continue;
    Magnitudes& m = *low.magnitudes;
    m.vector = part_of(m.vector, rows);
    for (std::vector<double>* const values : {&m.squares, &m.products, &m.added_squares}) {
      *values = {values->begin() + rows.first, values->begin() + rows.end};
    }
  }
  return std::make_shared<const Adapter>(std::move(part));
}

/// The parts of one row are received where they belong; those of several arrive one after another.
void DistributedModel::gather(const Tensor& computed, const Tensor& whole, const Parts& parts) {
  const std::int64_t width = whole.row_size(), n_rows = whole.rows();
  const auto part_in = [&](float* all, int rank) {
    const Range columns = part(parts, width, rank);
    return Tensor{all + n_rows * columns.first, {n_rows, columns.size()}};
  };
  // A rank has computed its part, or, if that is empty, a K/V head in the part of another rank.
  const Tensor own{computed.data, {n_rows, part(parts, width, ranks_.rank()).size()}};
  if (n_rows > 1) arriving_.resize(static_cast<std::size_t>(whole.count()));
  float* const all = n_rows > 1 ? arriving_.data() : whole.data;
  Tickets tickets;
  for (int i = 1; i < ranks_.size(); ++i) {
    const int from = (ranks_.rank() + ranks_.size() - i) % ranks_.size(), to = (ranks_.rank() + i) % ranks_.size();
    append(tickets, ranks_.send(to, std::as_bytes(own.values()), Channel::weights));
    append(tickets, ranks_.receive(from, std::as_writable_bytes(part_in(all, from).values()), Channel::weights));
  }
  const auto place = [&](const Tensor& from, int rank) {
    const std::int64_t first = part(parts, width, rank).first, n = from.row_size();
    for (std::int64_t row = 0; row < n_rows; ++row) std::copy_n(from.data + row * n, n, whole.row(row) + first);
  };
  place(own, ranks_.rank());
  ranks_.wait(tickets);
  for (int r = 0; r < ranks_.size() && n_rows > 1; ++r) {
    if (r != ranks_.rank()) place(part_in(all, r), r);
  }
}

void DistributedModel::take_part(const Tensor& whole, const Tensor& own, const Parts& parts) const {
  const Range columns = columns_of_rank(parts, whole.row_size());
  for (std::int64_t row = 0; row < own.rows(); ++row) {
    std::copy_n(whole.row(row) + columns.first, columns.size(), own.row(row));
  }
}

void DistributedModel::release_embedding() const {
  for (const Param* const table : {&whole_->params().embed, &whole_->params().encoder.embed}) {
    if (table->present()) MappedFile::release(memory_of(table->view));
  }
}

}  // namespace vitrine
