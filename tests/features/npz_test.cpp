// Archives of NumPy arrays: members stored and deflated, and files that are broken or would do harm.
#include <gmock/gmock.h>
#include <zlib.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "features/tensor_table.h"

namespace vitrine::test {
namespace {

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string array(const std::string& descr, const std::string& shape, const std::string& elements) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(118 - 1, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + little(header.size(), 2) + header + elements;
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string deflated(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string to(compressBound(text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_out = static_cast<uInt>(to.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  to.resize(stream.total_out);
  deflateEnd(&stream);
  return to;
}

struct Member {
  std::string name, contents;
  bool deflates = false;
  std::uint64_t stated_size = 0;  // 0: the true one
};

std::string archive(const std::vector<Member>& members) {
  std::string file, directory;
  for (const Member& own : members) {
    const std::string bytes = own.deflates ? deflated(own.contents) : own.contents;
    const std::uint64_t size = own.stated_size != 0 ? own.stated_size : own.contents.size();
    const std::string common = little(0, 2) + little(own.deflates ? 8 : 0, 2) + little(0, 8) + little(bytes.size(), 4) +
                               little(size, 4) + little(own.name.size(), 2) + little(0, 2);
    directory += little(0x02014b50, 4) + little(20, 4) + common + little(0, 2) + little(0, 8) + little(file.size(), 4) +
                 own.name;
    file += little(0x04034b50, 4) + little(20, 2) + common + own.name + bytes;
  }
  return file + directory + little(0x06054b50, 4) + little(0, 4) + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(file.size(), 4) + little(0, 2);
}

TensorTable opened(const std::string& bytes) {
  const std::string path = testing::TempDir() + "/test.npz";
  std::ofstream(path, std::ios::binary) << bytes;
  return TensorTable::open(path);
}

std::string refusal(const std::string& bytes) {
  try {
    opened(bytes).matrix("a", Stored::by_rows);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

const std::string kMatrix = array("<f4", "2, 3", floats({1, 2, 3, 4, 5, 6}));

TEST(Npz, StoredAndDeflatedArraysHaveTheSameElements) {
  for (const bool deflates : {false, true}) {
    TensorTable table = opened(archive({{"a.npy", kMatrix, deflates}, {"t.npy", array("<f8", "", little(0, 8))}}));
    const Param param = table.matrix("a", Stored::transposed, 3, 2);
    EXPECT_EQ(param.shape, (Shape{3, 2}));
    float element = 0;
    std::memcpy(&element, param.view.at(2, 1), sizeof(element));
    EXPECT_EQ(element, 6);
    EXPECT_EQ(table.values("t", 7), std::vector<float>{0});
    table.finish();
  }
}

TEST(Npz, RefusesWhatIsBrokenOrWouldDoHarm) {
  using testing::HasSubstr;
  const std::string good = archive({{"a.npy", kMatrix, true}});
  EXPECT_EQ(refusal(good), "");
  for (std::size_t n = 4; n < good.size(); n += 3) EXPECT_NE(refusal(good.substr(0, n)), "") << n;
  EXPECT_THAT(refusal(archive({{"a.npy", kMatrix, true, std::uint64_t{1} << 31}})), HasSubstr("at most 50 times"));
  std::vector<Member> many;  // each is small
  for (int i = 0; i < 40; ++i) many.push_back({"a" + std::to_string(i) + ".npy", kMatrix, true, 8 << 20});
  EXPECT_THAT(refusal(archive(many)), HasSubstr("at most 50 times"));
  EXPECT_THAT(refusal(archive({{"a.npy", kMatrix, true, 40}})), HasSubstr("expected deflated data of 40 bytes"));
  EXPECT_THAT(refusal(archive({{"a.npy", array("<f4", "2, 4", floats({1, 2, 3, 4, 5, 6}))}})), HasSubstr("truncated"));
  EXPECT_THAT(refusal(archive({{"a.npy", array("<f4", "9223372036854775807, 9", "")}})), HasSubstr("malformed"));
  EXPECT_THAT(refusal(archive({{"a.npy", array("|O", "2", "\x80\x04")}})), HasSubstr("a Python pickle can run code"));
  EXPECT_THAT(refusal(archive({{"archive/data.pkl", "\x80\x02}q"}})), HasSubstr("a Python pickle can run code"));
  EXPECT_THAT(refusal("\x80\x04\x95 and more"), HasSubstr("a Python pickle can run code"));
  EXPECT_THAT(refusal(archive({{"a.npy", array("<c8", "1", "12345678")}})), HasSubstr("elements of type <c8"));
}

}  // namespace
}  // namespace vitrine::test
