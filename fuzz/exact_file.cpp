// MappedFile for the fuzz targets, instead of base/mapped_file.cpp: heap memory with exactly the size of the file. The
// last page of a mapping is larger than the file, so AddressSanitizer would miss a read after the end of the file.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"

namespace vitrine {

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  std::error_code error;
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(path, error));
  if (error) throw BadInput(path, "cannot open: {}", error.message());
  auto bytes = std::make_unique<std::byte[]>(size);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.get()), static_cast<std::streamsize>(size));
  if (!file) throw BadInput(path, "cannot read {} bytes", size);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, std::span<const std::byte>(bytes.release(), size)));
}

std::shared_ptr<const MappedFile> MappedFile::open_or_read(const std::string& path) { return open(path); }

MappedFile::~MappedFile() { delete[] bytes_.data(); }

void MappedFile::release(std::span<const std::byte>) {}

}  // namespace vitrine
