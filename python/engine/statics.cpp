// The static objects of the extension live as long as the process. Otherwise their destructors, which run when the
// process ends, would take tables away from a daemon thread that is in a call.
extern "C" [[gnu::visibility("hidden")]] int __cxa_atexit(void (*)(void*), void*, void*) noexcept;

/// Takes the place of the C library's function, with which objects register their destructors.
int __cxa_atexit(void (*)(void*), void*, void*) noexcept { return 0; }
