// Archives of NumPy arrays: a zip file of .npy members, stored or deflated.
// Sources: numpy/lib/format.py (versions 1.0 to 3.0 of .npy); PKWARE, APPNOTE.TXT 4.3 (zip).
#pragma once

#include <memory>

#include "base/mapped_file.h"
#include "features/tensor_table.h"

namespace vitrine {

/// The arrays by their names without `.npy`. Stored members are views of the file; deflated ones are inflated into
/// memory, never more than the directory states. Throws BadCheckpoint for a file
/// that is malformed or truncated, Unsupported for pickled objects, other types and orders, encryption, other methods
/// of compression, more than 64 members, and members that inflate to more than 50 times their
/// size (and 64 MiB).
TensorTable open_npz(const std::shared_ptr<const MappedFile>& file);

}  // namespace vitrine
