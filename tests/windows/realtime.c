/* What Windows has as api-ms-win-core-realtime-l1-1-1.dll; Wine has no precise interrupt time, and its machine does not sleep. */

#include <windows.h>

VOID WINAPI QueryInterruptTimePrecise(PULONGLONG time) {
    LARGE_INTEGER count, a_second;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&a_second);
    ULONGLONG seconds = count.QuadPart / a_second.QuadPart, rest = count.QuadPart % a_second.QuadPart;
    *time = seconds * 10000000 + rest * 10000000 / a_second.QuadPart;
}
