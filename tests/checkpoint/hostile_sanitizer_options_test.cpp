// Under AddressSanitizer an allocation beyond all bounds returns null, as it does elsewhere, rather than ending the
// tests.
#if defined(__SANITIZE_ADDRESS__)
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif
