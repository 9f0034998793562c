/* What Windows has as bcryptprimitives.dll and an older Wine does not: Rust's standard library draws random numbers by it. */

#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    while (length > 0) {
        ULONG some = length > 65536 ? 65536 : (ULONG)length;
        if (!SystemFunction036(data, some)) return FALSE;
        data += some;
        length -= some;
    }
    return TRUE;
}
