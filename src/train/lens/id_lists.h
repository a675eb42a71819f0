// Lists of token ids: data.ids.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"

namespace vitrine {

class IdLists {
 public:
  /// Reads JSON Lines, each a list of ids such as [464, 3139], or an object whose `ids` is one, as `tokenize --lines`
  /// prints them. The first `longest` ids of a list count; 0: all. Throws BadInput, naming the line, for one that is no
  /// such list, that is empty, or that the model cannot read; and if there is none.
  static IdLists read(const std::string& path, const Model& model, std::int64_t longest);

  std::int64_t size() const { return std::ssize(begins_) - 1; }
  std::span<const std::int32_t> operator[](std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return std::span(ids_).subspan(begins_[at], begins_[at + 1] - begins_[at]);
  }
  /// Leaves lists of fewer ids out.
  void keep_from(std::int64_t shortest);
  /// A number that identifies the lists.
  std::uint64_t fingerprint() const;

 private:
  void add(std::span<const std::int32_t> ids) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    begins_.push_back(ids_.size());
  }

  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> begins_ = {0};
};

}  // namespace vitrine
