#include "train/references.h"

#include "base/error.h"
#include "base/file_writer.h"
#include "checkpoint/hugging_face/config_json.h"

namespace vitrine {

void write_references(const std::string& path, const std::vector<PairScore>& scores) {
  Json chosen = Json::array(), rejected = Json::array();
  for (const PairScore& score : scores) {
    chosen.push_back(score.chosen);
    rejected.push_back(score.rejected);
  }
  write_file(path, Json{{"chosen", chosen}, {"rejected", rejected}}.dump() + "\n");
}

std::vector<PairScore> read_references(const std::string& path, std::size_t n) {
  const Json json = read_json_file(path);
  try {
    const auto chosen = json.at("chosen").get<std::vector<double>>();
    const auto rejected = json.at("rejected").get<std::vector<double>>();
    if (chosen.size() != n || rejected.size() != n) {
      throw BadCheckpoint(path, "expected the scores of {} pairs, got {} and {}", n, chosen.size(), rejected.size());
    }
    std::vector<PairScore> scores;
    for (std::size_t i = 0; i < n; ++i) scores.push_back({chosen[i], rejected[i]});
    return scores;
  } catch (const Json::exception&) {
    throw BadCheckpoint(path, "expected lists of numbers as \"chosen\" and \"rejected\"");
  }
}

}  // namespace vitrine
