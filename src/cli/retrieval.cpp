#include "cli/retrieval.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "conversation/conversation.h"

namespace vitrine::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFound = 100;

/// The text at a key; "" if it is missing.
std::string text_at(const Json& object, const char* key, const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return "";
  if (!it->is_string()) throw BadInput(where, "{}: expected a text, got {}", key, it->type_name());
  return it->get<std::string>();
}

/// Calls take(id, object, where) for each line.
template <class Take>
void for_each_item(const fs::path& path, Take take) {
  for_each_line(path.string(), [&](std::string_view line, const std::string& where, std::int64_t) {
    const Json object = parse_json(line, where);
    if (!object.is_object()) throw BadInput(where, "expected an object, got {}", object.type_name());
    const std::string id = text_at(object, "_id", where);
    if (id.empty()) throw BadInput(where, "the key _id is missing");
    take(id, object, where);
  });
}

std::string document_of(const Json& object, const std::string& where) {
  const std::string title = text_at(object, "title", where), text = text_at(object, "text", where);
  return title.empty() || text.empty() ? title + text : title + " " + text;
}

fs::path qrels_in(const fs::path& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder / "qrels" / "test.tsv", error)) return folder / "qrels" / "test.tsv";
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder / "qrels", error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".tsv") found.push_back(it->path());
  }
  if (found.size() == 1) return found[0];
  throw BadInput((folder / "qrels").string(), "expected one .tsv file or test.tsv, got {}: --qrels names one",
                 found.size());
}

/// The relevant documents of each query, by their ids: those with a score above 0. Lines are query, document, score,
/// with a heading, or query, 0, document, score as in TREC.
std::map<std::string, std::set<std::string>> read_qrels(const fs::path& path) {
  std::map<std::string, std::set<std::string>> relevant;
  const auto file = MappedFile::open(path.string());
  std::int64_t number = 0;
  for (std::string_view line : split(file->text(), '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", path.string(), number);
    const std::vector<std::string_view> cells = split(line, '\t');
    if (cells.size() != 3 && cells.size() != 4) {
      throw BadInput(where, "expected three columns between tabs, got {}", cells.size());
    }
    const auto score = number_in<double>(std::string(cells.back()));
    if (!score && number == 1) continue;  // the heading
    if (!score) throw BadInput(where, "expected a score, got \"{}\"", cells.back());
    if (*score > 0) relevant[std::string(cells[0])].emplace(cells[cells.size() - 2]);
  }
  if (relevant.empty()) throw BadInput(path.string(), "expected a relevant document, got none");
  return relevant;
}

}  // namespace

RetrievalData read_retrieval(const std::string& folder, const std::string& qrels) {
  const fs::path root = folder;
  const auto relevant = read_qrels(qrels.empty() ? qrels_in(root) : fs::path(qrels));
  RetrievalData data;
  std::map<std::string, std::size_t> numbers;
  for_each_item(root / "corpus.jsonl", [&](const std::string& id, const Json& object, const std::string& where) {
    if (!numbers.emplace(id, numbers.size()).second) throw BadInput(where, "the document {} appears twice", id);
    data.document_ids.push_back(id);
    data.documents.push_back(document_of(object, where));
  });
  for_each_item(root / "queries.jsonl", [&](const std::string& id, const Json& object, const std::string& where) {
    const auto own = relevant.find(id);
    if (own == relevant.end()) return;
    data.queries.push_back(text_at(object, "text", where));
    data.n_relevant.push_back(std::ssize(own->second));
    data.relevant.emplace_back();
    for (const std::string& document : own->second) {
      const auto at = numbers.find(document);
      if (at != numbers.end()) data.relevant.back().insert(at->second);
    }
  });
  if (data.queries.empty()) throw BadInput(folder, "no query of queries.jsonl has a relevant document");
  return data;
}

std::vector<RankedQuery> retrieve(TaskTexts& texts, const RetrievalData& data) {
  const auto vectors = texts.vectors(data.queries, TextRole::query, data.documents, TextRole::document);
  const std::vector<TextVectors>&queries = vectors.first, &documents = vectors.second;
  const std::size_t n = documents.size(), n_found = std::min(kMostFound, n);
  std::vector<RankedQuery> result(queries.size());
  ThreadPool& pool = *texts.session().pool;
  pool.parallel_for(std::ssize(queries), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto q = static_cast<std::size_t>(begin); q < static_cast<std::size_t>(end); ++q) {
      std::vector<float> scores(n);
      for (std::size_t d = 0; d < n; ++d) {
        scores[d] = static_cast<float>(similarity_of(texts.config().similarity, queries[q], documents[d]));
      }
      std::vector<std::size_t> order = all_numbers(n);
      const auto is_before = [&](std::size_t a, std::size_t b) {
        return scores[a] != scores[b] ? scores[a] > scores[b] : data.document_ids[a] < data.document_ids[b];
      };
      const auto last = order.begin() + static_cast<std::ptrdiff_t>(n_found);
      std::partial_sort(order.begin(), last, order.end(), is_before);
      for (auto d = order.begin(); d != last; ++d) result[q].is_relevant.push_back(data.relevant[q].contains(*d));
      result[q].n_relevant = data.n_relevant[q];
    }
  });
  return result;
}

}  // namespace vitrine::cli
