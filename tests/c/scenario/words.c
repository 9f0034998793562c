/* The words of a line, what it answers, and whether that is what it expects. */

#include "scenario.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int line_number;
quorlock_error_t *last_error;

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("line %d: ", line_number);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    close_all();
    exit(1);
}

struct answer said(const char *text) {
    struct answer answer = {"", NULL};
    snprintf(answer.text, sizeof answer.text, "%s", text);
    return answer;
}

struct answer said_number(long long number) {
    struct answer answer = {"", NULL};
    snprintf(answer.text, sizeof answer.text, "%lld", number);
    return answer;
}

struct answer result(int32_t code, quorlock_error_t *error, const char *good) {
    struct answer answer = said(code == QUORLOCK_OK ? good : quorlock_kind_name(code));
    answer.error = error;
    return answer;
}

static bool number(const char *text, long long *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return *text && !*end && !errno;
}

bool holds(const char *answer, const char *expected) {
    long long got, limit;
    if ((!strncmp(expected, ">=", 2) || !strncmp(expected, "<=", 2)) && number(expected + 2, &limit))
        return number(answer, &got) && (*expected == '>' ? got >= limit : got <= limit);
    return !strcmp(answer, expected);
}

void judge(struct answer answer, const char *expected) {
    if (answer.error) {
        quorlock_error_free(last_error);
        last_error = answer.error;
    }
    if (!holds(answer.text, expected))
        fail("expected %s, got %s%s%s", expected, answer.text, answer.error ? ": " : "",
             answer.error ? quorlock_error_text(answer.error) : "");
}

int64_t millis(const char *text) {
    long long value = 0;
    if (!number(text, &value) || value < 0) fail("expected milliseconds, got %s", text);
    return value;
}

int64_t count_of(const char *text) {
    long long value = 0;
    if (!number(text, &value)) fail("expected a number, got %s", text);
    return value;
}

int64_t limit(const char *text) { return strcmp(text, "none") ? millis(text) : QUORLOCK_FOREVER; }

bool on(const char *text) {
    if (strcmp(text, "on") && strcmp(text, "off")) fail("expected on or off, got %s", text);
    return !strcmp(text, "on");
}

/* Another word is a number that is no guard: for the library to refuse. */
int32_t restart_guard_of(const char *text) {
    if (!strcmp(text, "auto")) return QUORLOCK_RESTART_GUARD_AUTO;
    if (!strcmp(text, "on")) return QUORLOCK_RESTART_GUARD_ON;
    return strcmp(text, "off") ? -1 : QUORLOCK_RESTART_GUARD_OFF;
}

int32_t layout_of(const char *text) {
    if (!strcmp(text, "plain")) return QUORLOCK_LAYOUT_PLAIN;
    return strcmp(text, "redisson") ? -1 : QUORLOCK_LAYOUT_REDISSON;
}

double fraction(const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (!*text || *end) fail("expected a fraction, got %s", text);
    return value;
}

size_t unescape(char *text) {
    if (!strcmp(text, "%")) return *text = 0;
    char *to = text;
    for (char *from = text; *from; to++) {
        char hex[3] = {0};
        if (*from == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2])) {
            memcpy(hex, from + 1, 2);
            *to = (char)strtol(hex, NULL, 16);
            from += 3;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
    return (size_t)(to - text);
}

char *option(struct line *line, int *at, char **value) {
    char *word = line->words[(*at)++];
    char *equals = strchr(word, '=');
    if (!equals) fail("expected an option");
    *equals = 0;
    *value = equals + 1;
    return word;
}
