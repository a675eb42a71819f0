#include "tokenizer/read/tokenizer_classes.h"

#include <algorithm>
#include <utility>

#include "tokenizer/metaspace.h"
#include "tokenizer/sentencepiece_normalizer.h"

namespace vitrine {
namespace {

constexpr std::string_view kMbart50Languages =
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP "
    "nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN "
    "mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";
constexpr std::string_view kNllbLanguages =
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab ars_Arab "
    "ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl "
    "bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn "
    "est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn "
    "gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab "
    "kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn "
    "kon_Latn kor_Hang kmr_Latn lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn "
    "mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn "
    "nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn "
    "sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn "
    "szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn "
    "vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zul_Latn";

constexpr std::string_view kM2m100Languages =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht "
    "hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";
constexpr std::string_view kWmt21Languages = "en ha is ja cs ru zh de";

/// The words of a list.
std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

std::vector<std::string> nllb_languages() { return words_of(kNllbLanguages); }
std::vector<std::string> mbart50_languages() { return words_of(kMbart50Languages); }
std::vector<std::string> mbart_languages() {
  constexpr std::size_t kMbartLanguages = 25;  // the first of mBART-50's
  std::vector<std::string> languages = mbart50_languages();
  languages.resize(kMbartLanguages);
  return languages;
}

Json step(const char* type) { return {{"type", type}}; }
Json sequence(const char* key, Json steps) { return {{"type", "Sequence"}, {key, std::move(steps)}}; }
Json normalizers(Json steps) { return sequence("normalizers", std::move(steps)); }
Json pre_tokenizers(Json steps) { return sequence("pretokenizers", std::move(steps)); }

Json metaspace(const char* scheme, bool split = true) {
  return {
      {"type", "Metaspace"}, {"replacement", std::string(kSpaceSymbol)}, {"prepend_scheme", scheme}, {"split", split}};
}

Json replace_step(const char* kind, std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{kind, std::string(pattern)}}}, {"content", std::string(content)}};
}
Json single_spaces() { return replace_step("Regex", " {2,}", " "); }

Json bytes_step(bool add_prefix_space, bool use_regex = true) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json regex_split(std::string_view regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", std::string(regex)}}}, {"behavior", "Isolated"}, {"invert", false}};
}

/// The decoder of SentencePiece's BPE with byte fallback. `strips`: a space at the start of the text is not part of it.
Json byte_fallback_decoder(bool strips) {
  Json steps = {replace_step("String", kSpaceSymbol, " "), step("ByteFallback"), step("Fuse")};
  if (strips) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
  return sequence("decoders", std::move(steps));
}

Json pipeline(Json normalizer, Json pre_tokenizer, Json decoder, Json model) {
  return {{"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

std::string unk_of(const JsonFields& config, const char* fallback) {
  const Json* json = config.find("unk_token");
  if (json == nullptr) return fallback;
  return json->is_object() ? JsonFields(*json, "unk_token", config.where()).string("content")
                           : config.string("unk_token");
}

Json wordpiece(const JsonFields& config, const Json&) {
  const Json* accents = config.find("strip_accents");
  return pipeline({{"type", "BertNormalizer"},
                   {"clean_text", true},
                   {"handle_chinese_chars", config.boolean("tokenize_chinese_chars", true)},
                   {"strip_accents", accents == nullptr ? Json() : Json(config.boolean("strip_accents"))},
                   {"lowercase", config.boolean("do_lower_case", true)}},
                  step("BertPreTokenizer"), {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
                  {{"unk_token", unk_of(config, "[UNK]")},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100U}});
}

Json gpt2(const JsonFields& config, const Json&) {
  return pipeline(nullptr, bytes_step(config.boolean("add_prefix_space", false)), bytes_step(true), Json::object());
}

Json gpt_neox(const JsonFields& config, const Json&) {
  return pipeline(step("NFC"), bytes_step(config.boolean("add_prefix_space", false)), bytes_step(true), Json::object());
}

Json cohere(const JsonFields& config, const Json&) {
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return pipeline(step("NFC"), pre_tokenizers({digits, bytes_step(config.boolean("add_prefix_space", false))}),
                  bytes_step(true), Json::object());
}

Json qwen(const JsonFields& config, std::string_view pattern) {
  return pipeline(step("NFC"),
                  pre_tokenizers({regex_split(pattern), bytes_step(config.boolean("add_prefix_space", false), false)}),
                  bytes_step(true), Json::object());
}
Json qwen2(const JsonFields& config, const Json&) {
  return qwen(
      config,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
}
Json qwen3_5(const JsonFields& config, const Json&) {
  return qwen(
      config,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
}

Json llama(const JsonFields& config, const Json&) {
  const bool prefix = config.boolean("add_prefix_space", true);
  const char* const scheme = !prefix ? "never" : config.boolean("legacy", false) ? "always" : "first";
  return pipeline(nullptr, metaspace(scheme, false), byte_fallback_decoder(prefix),
                  {{"fuse_unk", true}, {"byte_fallback", true}});
}

Json code_llama(const JsonFields& config, const Json&) {
  const bool prefix = config.boolean("add_prefix_space", true);
  return pipeline(nullptr, metaspace(prefix ? "first" : "never", false), byte_fallback_decoder(true),
                  {{"fuse_unk", true}, {"byte_fallback", true}, {"unk_token", unk_of(config, "<unk>")}});
}

Json gemma(const JsonFields& config, const Json&) {
  const Json at_spaces = {
      {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  return pipeline(replace_step("String", " ", kSpaceSymbol), at_spaces, byte_fallback_decoder(false),
                  {{"fuse_unk", true}, {"byte_fallback", true}, {"unk_token", unk_of(config, "<unk>")}});
}

Json precompiled(const Json& charsmap) { return {{"type", "Precompiled"}, {"precompiled_charsmap", charsmap}}; }

/// A flag; null is false, as in Python.
bool flag(const JsonFields& config, const char* key, bool usual) {
  return config.boolean(key, usual && !config.is_null(key));
}

Json nllb(const JsonFields& config, const Json& charsmap) {
  const Json normalizer = charsmap.is_null() ? Json() : normalizers({precompiled(charsmap), single_spaces()});
  return pipeline(normalizer, metaspace("always"), metaspace("always"),
                  {{"fuse_unk", true}, {"unk_token", unk_of(config, config.is_null("unk_token") ? "None" : "<unk>")}});
}

/// A unigram model whose texts are divided at white space.
Json unigram(Json normalizer, const char* scheme, unsigned unk) {
  return pipeline(std::move(normalizer), pre_tokenizers({step("WhitespaceSplit"), metaspace(scheme)}),
                  metaspace(scheme), {{"unk_id", unk}, {"byte_fallback", false}});
}
const char* scheme_of(const JsonFields& config) { return flag(config, "add_prefix_space", true) ? "always" : "never"; }

Json t5(const JsonFields&, const Json& charsmap) {
  return unigram(charsmap.is_null() ? Json() : precompiled(charsmap), "always", 2);
}
Json xlm_roberta(const JsonFields& config, const Json& charsmap) {
  return unigram(charsmap.is_null() ? Json() : precompiled(charsmap), scheme_of(config), 3);
}
Json mbart(const JsonFields&, const Json&) { return unigram(nullptr, "always", 3); }

Json albert(const JsonFields& config, const Json& charsmap) {
  Json steps = {replace_step("String", "``", "\""), replace_step("String", "''", "\"")};
  if (!config.boolean("keep_accents", false)) {
    steps.push_back(step("NFKD"));
    steps.push_back(step("StripAccents"));
  }
  if (flag(config, "do_lower_case", true)) steps.push_back(step("Lowercase"));
  if (!charsmap.is_null()) steps.push_back(precompiled(charsmap));
  return unigram(normalizers(std::move(steps)), scheme_of(config), 1);
}

Json mbart50(const JsonFields&, const Json& charsmap) {
  Json steps = {single_spaces()};
  if (!charsmap.is_null()) steps.insert(steps.begin(), precompiled(charsmap));
  return pipeline(normalizers(std::move(steps)), metaspace("always"), metaspace("always"),
                  {{"unk_id", 3U}, {"byte_fallback", false}});
}

Json pegasus(const JsonFields& config, const Json& charsmap) {
  const Json first = charsmap.is_null() ? replace_step("Regex", "\\n", " ") : precompiled(charsmap);
  return pipeline(normalizers({first, single_spaces()}), metaspace("always"), metaspace("always"),
                  {{"unk_piece", unk_of(config, "<unk>")}, {"unk_id", 1U}});
}

Json deberta_v2(const JsonFields& config, const Json&) {
  Json steps = Json::array();
  if (config.boolean("do_lower_case", false)) steps.push_back(step("Lowercase"));
  steps.push_back(replace_step("Regex", R"(\s{2,}|[\n\r\t])", " "));
  steps.push_back(step("NFC"));
  steps.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
  Json words = Json::array();
  if (config.boolean("split_by_punct", false)) words.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  const char* const scheme = flag(config, "add_prefix_space", true) ? "always" : "first";
  words.push_back(metaspace(scheme));
  return pipeline(
      normalizers(std::move(steps)), pre_tokenizers(std::move(words)), metaspace(scheme),
      {{"unk_piece", unk_of(config, "[UNK]")}, {"unk_id", static_cast<std::uint64_t>(config.integer("unk_id", 1))}});
}

constexpr const char* kEnd = "<|endoftext|>";

// clang-format off
const TokenizerClass kClasses[] = {
    {"BertTokenizer", "WordPiece", {nullptr, nullptr, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}, wordpiece, Around::bert},
    {"MPNetTokenizer", "WordPiece", {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"}, wordpiece, Around::roberta, PieceOrder::kept, nullptr, nullptr, true},
    {"GPT2Tokenizer", "BPE", {kEnd, kEnd, kEnd, nullptr, nullptr, nullptr, nullptr}, gpt2},
    {"RobertaTokenizer", "BPE", {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}, gpt2, Around::roberta},
    {"GPTNeoXTokenizer", "BPE", {kEnd, kEnd, kEnd, nullptr, "<|padding|>", nullptr, nullptr}, gpt_neox, Around::bos_eos},
    {"CohereTokenizer", "BPE", {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"}, cohere},
    {"Qwen2Tokenizer", "BPE", {nullptr, kEnd, kEnd, nullptr, kEnd, nullptr, nullptr}, qwen2},
    {"Qwen3_5Tokenizer", "BPE", {nullptr, kEnd, kEnd, nullptr, kEnd, nullptr, nullptr}, qwen3_5},
    {"LlamaTokenizer", "BPE", {"<s>", "</s>", "<unk>", nullptr, nullptr, nullptr, nullptr}, llama},
    {"CodeLlamaTokenizer", "BPE", {"<s>", "</s>", "<unk>", nullptr, nullptr, nullptr, nullptr}, code_llama},
    {"GemmaTokenizer", "BPE", {"<bos>", "<eos>", "<unk>", nullptr, "<pad>", nullptr, "<mask>"}, gemma},
    {"NllbTokenizer", "BPE", {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}, nllb, Around::prefix_language, PieceOrder::nllb, nllb_languages, "eng_Latn", true},
    {"T5Tokenizer", "Unigram", {nullptr, "</s>", "<unk>", nullptr, "<pad>", nullptr, nullptr}, t5, Around::eos},
    {"XLMRobertaTokenizer", "Unigram", {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}, xlm_roberta, Around::xlm_roberta, PieceOrder::fairseq},
    {"MBartTokenizer", "Unigram", {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}, mbart, Around::suffix_language, PieceOrder::fairseq_languages, mbart_languages, "en_XX", true},
    {"MBart50Tokenizer", "Unigram", {nullptr, "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}, mbart50, Around::prefix_language, PieceOrder::fairseq_languages, mbart50_languages, "en_XX", true},
    {"AlbertTokenizer", "Unigram", {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"}, albert, Around::albert},
    {"DebertaV2Tokenizer", "Unigram", {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}, deberta_v2, Around::bert},
    {"PegasusTokenizer", "Unigram", {nullptr, "</s>", "<unk>", nullptr, "<pad>", nullptr, "<mask_2>"}, pegasus, Around::eos, PieceOrder::pegasus},
};

constexpr std::pair<std::string_view, std::string_view> kSameClasses[] = {
    {"DistilBertTokenizer", "BertTokenizer"}, {"ElectraTokenizer", "BertTokenizer"}, {"MobileBertTokenizer", "BertTokenizer"},
    {"ConvBertTokenizer", "BertTokenizer"}, {"SqueezeBertTokenizer", "BertTokenizer"}, {"LayoutLMTokenizer", "BertTokenizer"},
    {"LxmertTokenizer", "BertTokenizer"}, {"DPRQuestionEncoderTokenizer", "BertTokenizer"}, {"BartTokenizer", "RobertaTokenizer"},
    {"LEDTokenizer", "RobertaTokenizer"}, {"LongformerTokenizer", "RobertaTokenizer"}, {"MvpTokenizer", "RobertaTokenizer"},
    {"Phi3Tokenizer", "LlamaTokenizer"}, {"DPRContextEncoderTokenizer", "BertTokenizer"}, {"CodeGenTokenizer", "GPT2Tokenizer"}};

/// The model types of a class, separated and surrounded by spaces.
constexpr std::pair<std::string_view, std::string_view> kModelTypes[] = {
    {"TokenizersBackend", " EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5 ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear kosmos-2 llava llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral ministral3 mistral mistral3 mistral_large4 mixtral modernbert modernbert-decoder molmo molmo2 nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid omniasr opencua openvla paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts smolvlm stablelm step3_vl umt5 vipllava voxtral voxtral_realtime xlm-roberta-xl "},
    {"BertTokenizer", " align bark bert blip bros chinese_clip convbert distilbert dpr electra ernie flava git grounding-dino layoutlm lxmert megatron-bert mm-grounding-dino mobilebert nezha nomic_bert qdqbert realm retribert squeezebert tvp vilt visual_bert "},
    {"MPNetTokenizer", " mpnet "},
    {"GPT2Tokenizer", " blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo jais2 opt phi starcoder2 "},
    {"RobertaTokenizer", " bart bridgetower clap data2vec-text florence2 ibert led lilt longformer mega mra mvp roberta roberta-prelayernorm "},
    {"GPTNeoXTokenizer", " falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm "},
    {"CohereTokenizer", " aya_vision cohere cohere2 "},
    {"Qwen2Tokenizer", " audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice "},
    {"Qwen3_5Tokenizer", " qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp "},
    {"LlamaTokenizer", " idefics idefics2 "},
    {"CodeLlamaTokenizer", " code_llama "},
    {"GemmaTokenizer", " diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 t5gemma zaya "},
    {"NllbTokenizer", " nllb nllb-moe "},
    {"T5Tokenizer", " mt5 musicgen musicgen_melody switch_transformers t5 "},
    {"XLMRobertaTokenizer", " gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod "},
    {"MBartTokenizer", " mbart "},
    {"MBart50Tokenizer", " mbart50 "},
    {"AlbertTokenizer", " albert yoso "},
    {"DebertaV2Tokenizer", " deberta-v2 "},
    {"PegasusTokenizer", " pegasus "},
    {"M2M100Tokenizer", " m2m_100 "},
    {"MarianTokenizer", " marian "}};

/// The classes that are not built here, and their model types.
constexpr std::pair<std::string_view, std::string_view> kOtherClasses[] = {
    {"BarthezTokenizer", " barthez "}, {"BartphoTokenizer", " bartpho "}, {"BertGenerationTokenizer", " bert-generation "},
    {"BertJapaneseTokenizer", " bert-japanese "}, {"BertweetTokenizer", " bertweet "}, {"BigBirdTokenizer", " big_bird "},
    {"BioGptTokenizer", " biogpt "}, {"BlenderbotSmallTokenizer", " blenderbot-small "}, {"BlenderbotTokenizer", " blenderbot "},
    {"ByT5Tokenizer", " byt5 "}, {"CLIPTokenizer", " aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip "},
    {"CTRLTokenizer", " ctrl "}, {"CamembertTokenizer", " camembert "}, {"CanineTokenizer", " canine "}, {"ClvpTokenizer", " clvp "},
    {"CpmAntTokenizer", " cpmant "}, {"CpmTokenizer", " cpm "}, {"DPRReaderTokenizer", ""}, {"DebertaTokenizer", " deberta "},
    {"DiaTokenizer", " dia "}, {"EsmTokenizer", " esm "}, {"EsmcTokenizer", " esmc esmfold2 "}, {"FNetTokenizer", " fnet "},
    {"FSMTTokenizer", " fsmt "}, {"FastSpeech2ConformerTokenizer", ""}, {"FlaubertTokenizer", " flaubert "}, {"FunnelTokenizer", " funnel "},
    {"GPTNeoXJapaneseTokenizer", " gpt_neox_japanese "}, {"GPTSw3Tokenizer", " gpt-sw3 "}, {"HerbertTokenizer", " herbert "},
    {"LasrTokenizer", " lasr_ctc lasr_encoder "}, {"LayoutLMv2Tokenizer", " layoutlmv2 "}, {"LayoutLMv3Tokenizer", " layoutlmv3 "},
    {"LayoutXLMTokenizer", " layoutxlm "}, {"LukeTokenizer", " luke "}, {"MLukeTokenizer", " mluke "}, {"MarkupLMTokenizer", " markuplm "},
    {"MgpstrTokenizer", " mgp-str "}, {"MyT5Tokenizer", " myt5 "}, {"NougatTokenizer", " nougat pp_formulanet "},
    {"OpenAIGPTTokenizer", " openai-gpt "}, {"PLBartTokenizer", " plbart "},
    {"ParakeetTokenizer", " granite_speech5_ctc nemotron3_5_asr nemotron_asr_streaming omniasr_ctc parakeet_ctc parakeet_rnnt parakeet_tdt "},
    {"PerceiverTokenizer", " perceiver "}, {"PhobertTokenizer", " phobert "}, {"Pop2PianoTokenizer", ""}, {"ProphetNetTokenizer", " prophetnet "},
    {"RagTokenizer", " rag "}, {"ReformerTokenizer", " reformer "}, {"RemBertTokenizer", " rembert "}, {"RoCBertTokenizer", " roc_bert "},
    {"RoFormerTokenizer", " roformer "}, {"SeamlessM4TTokenizer", " seamless_m4t seamless_m4t_v2 "}, {"Siglip2Tokenizer", " siglip2 "},
    {"SiglipTokenizer", " siglip "}, {"Speech2TextTokenizer", " speech_to_text "}, {"SpeechT5Tokenizer", " speecht5 "},
    {"SplinterTokenizer", " splinter "}, {"TapasTokenizer", " tapas "}, {"Tipsv2Tokenizer", " tipsv2 "}, {"UdopTokenizer", " udop "},
    {"VideoPrismTokenizer", " videoprism "}, {"VitsTokenizer", " vits "},
    {"Wav2Vec2CTCTokenizer", " data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert wav2vec2-conformer "},
    {"Wav2Vec2PhonemeCTCTokenizer", " wav2vec2_phoneme "}, {"WhisperTokenizer", " whisper "}, {"XGLMTokenizer", " xglm "}, {"XLMTokenizer", " xlm "},
    {"XLNetTokenizer", " xlnet "}};

constexpr std::string_view kMisnamed =
    " arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder jamba llava llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 opencua openvla paddleocr_vl phi3 phi3_v phimoe qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava ";
// clang-format on

bool has_word(std::string_view list, std::string_view word) {
  return !word.empty() && list.find(" " + std::string(word) + " ") != list.npos;
}

}  // namespace

std::vector<std::string> m2m100_languages(std::string_view set) {
  return words_of(set == "wmt21" ? kWmt21Languages : kM2m100Languages);
}

const TokenizerClass* find_tokenizer_class(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  for (const auto& [same, as] : kSameClasses) {
    if (name == same) name = as;
  }
  const auto* const found =
      std::find_if(std::begin(kClasses), std::end(kClasses), [&](const auto& row) { return row.name == name; });
  return found == std::end(kClasses) ? nullptr : found;
}

std::string_view tokenizer_class_of(std::string_view model_type) {
  for (const auto& [name, types] : kModelTypes) {
    if (has_word(types, model_type)) return name;
  }
  for (const auto& [name, types] : kOtherClasses) {
    if (has_word(types, model_type)) return name;
  }
  return "";
}

bool is_other_tokenizer_class(std::string_view name) {
  return std::any_of(std::begin(kOtherClasses), std::end(kOtherClasses),
                     [&](const auto& other) { return other.first == name; });
}

bool is_misnamed(std::string_view model_type) { return has_word(kMisnamed, model_type); }

}  // namespace vitrine
