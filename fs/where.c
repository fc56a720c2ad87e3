#include "fs/where.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MS_PER_SECOND = 1000, SECONDS_PER_DAY = 86400 };

/* A decimal number at *text, without sign or leading zeros; *text moves behind it. */
static bool take_number(const char **text, int64_t *out)
{
    const char *digit = *text;
    int64_t value = 0;
    if (*digit < '0' || *digit > '9')
        return false;
    if (digit[0] == '0' && digit[1] >= '0' && digit[1] <= '9')
        return false;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        int d = *digit - '0';
        if (value > (INT64_MAX - d) / 10)
            return false;
        value = value * 10 + d;
    }
    *text = digit;
    *out = value;
    return true;
}

/* Exactly `count` decimal digits, as in dates. */
static bool take_digits(const char **text, int count, int *out)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        char c = (*text)[i];
        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (c - '0');
    }
    *text += count;
    *out = value;
    return true;
}

static bool take_char(const char **text, char expected)
{
    if (**text != expected)
        return false;
    (*text)++;
    return true;
}

/* Digits after a point, as milliseconds; what is finer is cut. At least one digit. */
static bool take_fraction(const char **text, int64_t *ms)
{
    int64_t unit = 100;
    const char *digit = *text;
    *ms = 0;
    if (*digit < '0' || *digit > '9')
        return false;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        *ms += (*digit - '0') * unit;
        unit /= 10;
    }
    *text = digit;
    return true;
}

static bool leap_year(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && leap_year(year) ? 29 : days[month - 1];
}

/* Days from 1970-01-01 in the Gregorian calendar, for any year from 0 on. */
static int64_t days_since_epoch(int year, int month, int day)
{
    int64_t y = year - (month <= 2);
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t shifted_month = (month + 9) % 12; /* March is 0: leap days come last */
    int64_t day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

/* "Z", "+01:00", "-0530": minutes east of UTC. */
static bool take_zone(const char **text, int *minutes)
{
    int hour = 0;
    int minute = 0;
    char sign = **text;
    *minutes = 0;
    if (sign == 'Z' || sign == 'z') {
        (*text)++;
        return true;
    }
    if (sign != '+' && sign != '-')
        return false;
    (*text)++;
    if (!take_digits(text, 2, &hour))
        return false;
    (void)take_char(text, ':');
    if (!take_digits(text, 2, &minute) || hour > 23 || minute > 59)
        return false;
    *minutes = (sign == '-' ? -1 : 1) * (hour * 60 + minute);
    return true;
}

static bool take_date(const char **text, int64_t *days)
{
    int year = 0;
    int month = 0;
    int day = 0;
    if (!take_digits(text, 4, &year) || !take_char(text, '-') ||
        !take_digits(text, 2, &month) || !take_char(text, '-') ||
        !take_digits(text, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return false;
    *days = days_since_epoch(year, month, day);
    return true;
}

static bool take_time_of_day(const char **text, int64_t *ms)
{
    int hour = 0;
    int minute = 0;
    int second = 0;
    int64_t fraction = 0;
    if (!take_digits(text, 2, &hour) || !take_char(text, ':') ||
        !take_digits(text, 2, &minute) || !take_char(text, ':') ||
        !take_digits(text, 2, &second))
        return false;
    /* 60 is a leap second; POSIX time has it as the next minute's first second. */
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    if (take_char(text, '.') && !take_fraction(text, &fraction))
        return false;
    *ms = ((int64_t)hour * 3600 + minute * 60 + second) * MS_PER_SECOND + fraction;
    return true;
}

/* RFC 3339, e.g. 2026-11-29T12:00:00.5+01:00. */
static bool parse_date_time(const char *name, struct where *out)
{
    int64_t days = 0;
    int64_t ms = 0;
    int zone_minutes = 0;
    if (!take_date(&name, &days) || !(*name == 'T' || *name == 't'))
        return false;
    name++;
    if (!take_time_of_day(&name, &ms) || !take_zone(&name, &zone_minutes) ||
        *name != '\0')
        return false;
    out->kind = WHERE_TIME;
    out->time_ms = days * SECONDS_PER_DAY * MS_PER_SECOND + ms -
                   (int64_t)zone_minutes * 60 * MS_PER_SECOND;
    return true;
}

/* Behind the '@': seconds since 1970, with optional fraction. */
static bool parse_unix_time(const char *text, struct where *out)
{
    int64_t seconds = 0;
    int64_t ms = 0;
    if (!take_number(&text, &seconds) || seconds > INT64_MAX / MS_PER_SECOND - 1)
        return false;
    if (take_char(&text, '.') && !take_fraction(&text, &ms))
        return false;
    if (*text != '\0')
        return false;
    out->kind = WHERE_TIME;
    out->time_ms = seconds * MS_PER_SECOND + ms;
    return true;
}

/* Behind "last" or '-': a count, or behind "last" an age with its unit. */
static bool parse_last(const char *text, bool allow_age, struct where *out)
{
    static const struct {
        char letter;
        int64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
    int64_t number = 0;
    if (!take_number(&text, &number))
        return false;
    if (*text == '\0') {
        out->kind = WHERE_LAST;
        out->count = number;
        return true;
    }
    for (size_t i = 0; allow_age && i < sizeof units / sizeof units[0]; i++) {
        if (text[0] != units[i].letter || text[1] != '\0')
            continue;
        if (number > INT64_MAX / units[i].ms)
            return false;
        out->kind = WHERE_AGE;
        out->age_ms = number * units[i].ms;
        return true;
    }
    return false;
}

static bool parse_offset(const char *text, struct where *out)
{
    if (!take_number(&text, &out->offset))
        return false;
    out->kind = WHERE_OFFSET;
    if (*text == '\0')
        return true;
    out->kind = WHERE_RANGE;
    return take_char(&text, '-') && take_number(&text, &out->last_offset) &&
           *text == '\0' && out->offset <= out->last_offset;
}

static bool parse(const char *name, struct where *out)
{
    if (strcmp(name, "earliest") == 0) {
        out->kind = WHERE_EARLIEST;
        return true;
    }
    if (strcmp(name, "latest") == 0) {
        out->kind = WHERE_LATEST;
        return true;
    }
    if (strncmp(name, "last", 4) == 0)
        return parse_last(name + 4, true, out);
    if (name[0] == '-')
        return parse_last(name + 1, false, out);
    if (name[0] == '@')
        return parse_unix_time(name + 1, out);
    /* A date has its 'T' at a place where an offset or a range has none. */
    if (strpbrk(name, "Tt") != NULL)
        return parse_date_time(name, out);
    return parse_offset(name, out);
}

int where_parse(const char *name, struct where *out)
{
    *out = (struct where){0};
    return parse(name, out) ? 0 : -EINVAL;
}
