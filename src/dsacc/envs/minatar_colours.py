"""The colour of each kind of thing in MinAtar's games, by MinAtar's own names of its channels.

The order is that of drawing: where several are in one cell, the first of them is shown. What an agent steers comes
first, then what flies, then what must be met or avoided, then the trails that tell directions. Colours mean the same in
all games: green is the player, red and magenta are enemies, yellow is what brings points; only the five trails of
Freeway, one for each speed, have colours of their own. There is no white and no grey, which snow and fog have.
"""

Colour = tuple[int, int, int]

BLACK: Colour = (0, 0, 0)
_PLAYER: Colour = (40, 220, 70)
_PLAYER_BACK: Colour = (10, 110, 50)
_SHOT: Colour = (70, 230, 255)
_ENEMY: Colour = (235, 50, 50)
_OTHER_ENEMY: Colour = (225, 60, 220)
_ENEMY_SHOT: Colour = (255, 140, 20)
_POINTS: Colour = (255, 220, 40)
_TRAIL: Colour = (60, 70, 190)

COLOURS: dict[str, dict[str, Colour]] = {
    "asterix": {"player": _PLAYER, "enemy": _ENEMY, "gold": _POINTS, "trail": _TRAIL},
    "breakout": {"ball": _POINTS, "paddle": _PLAYER, "trail": _TRAIL, "brick": (205, 75, 45)},
    "freeway": {
        "chicken": _PLAYER,
        "car": _ENEMY,
        "speed1": (255, 220, 40),  # a step per frame
        "speed2": (255, 140, 20),
        "speed3": (225, 60, 220),
        "speed4": (80, 150, 255),
        "speed5": (60, 70, 190),  # a step in five frames
    },
    "seaquest": {
        "sub_front": _PLAYER,
        "sub_back": _PLAYER_BACK,
        "friendly_bullet": _SHOT,
        "enemy_bullet": _ENEMY_SHOT,
        "enemy_sub": _OTHER_ENEMY,
        "enemy_fish": _ENEMY,
        "diver": _POINTS,
        "trail": _TRAIL,
        "diver_guage": (150, 155, 30),
        "oxygen_guage": (30, 120, 150),
    },
    "space_invaders": {
        "cannon": _PLAYER,
        "friendly_bullet": _SHOT,
        "enemy_bullet": _ENEMY_SHOT,
        "alien_left": _OTHER_ENEMY,
        "alien_right": _ENEMY,
        "alien": _TRAIL,  # never seen: every alien has a direction
    },
}
