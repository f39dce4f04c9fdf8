"""What scikit-learn's forests make of a table: see main.rs.

Arguments: a file of rows `fold,label,value,...`, the number of trees, and how often features are permuted.
Prints, each a mean over folds: categorical and top-5 accuracy, Gini importances, permutation importances.
"""

import sys

import numpy
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance

table = numpy.genfromtxt(sys.argv[1], delimiter=",")
trees, repeats = int(sys.argv[2]), int(sys.argv[3])
folds, labels, values = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2:]
found = []
for fold in range(folds.max() + 1):
    learned, held_out = folds != fold, folds == fold
    forest = RandomForestClassifier(n_estimators=trees, random_state=fold).fit(values[learned], labels[learned])
    votes = forest.predict_proba(values[held_out])
    # Of as many votes the smaller label comes first, and one without votes never counts.
    first = numpy.argsort(-votes, axis=1, kind="stable")[:, :5]
    are_right = (forest.classes_[first] == labels[held_out][:, None]) & (numpy.take_along_axis(votes, first, 1) > 0)
    permuted = permutation_importance(forest, values[held_out], labels[held_out], n_repeats=repeats, random_state=fold)
    accuracies = [are_right[:, 0].mean(), are_right.any(axis=1).mean()]
    found.append(numpy.concatenate([accuracies, forest.feature_importances_, permuted.importances_mean]))
print(*numpy.mean(found, axis=0))
