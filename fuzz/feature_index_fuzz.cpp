// Indexes of features.
#include "inspect/feature_index.h"

#include <algorithm>

#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  return fuzz::answer([&] {
    const FeatureIndex index(folder.put("f.safetensors", fuzz::text_of(data, size)));
    fuzz::expect(index.dead() <= index.d_sae(), "no more features are dead than there are");
    for (std::int64_t feature = 0; feature < std::min<std::int64_t>(8, index.d_sae()); ++feature) {
      const FeatureDashboard dashboard = index.dashboard(feature);
      for (const FeatureContext& context : dashboard.contexts) {
        fuzz::expect(context.ids.size() == context.values.size(), "each token of a context has a value");
        fuzz::expect(context.position < std::ssize(context.ids), "the strongest token is in the context");
      }
      dashboard_json(index, dashboard);
    }
  });
}
